"""Every right the chart gives, written down: a change of one is a change of this file, and is seen in review."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.helm import Helm
from e2e.kube import Object
from tests.integration.chart.rendered import EVERYTHING, NARROW, name

SNAPSHOT = Path(__file__).with_name("rbac.txt")


def rights(objects: list[Object]) -> Iterator[str]:
    """One line a resource, and who is bound to the role."""
    for obj in sorted(objects, key=name):
        if obj["kind"] in ("Role", "ClusterRole"):
            yield name(obj)
            yield from sorted(_lines(obj))
            if wide := [label for label in obj["metadata"]["labels"] if "aggregate-to" in label]:
                yield f"  becomes part of: {', '.join(sorted(label.rpartition('aggregate-to-')[2] for label in wide))}"
        elif obj["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            (subject,), role = obj["subjects"], obj["roleRef"]
            yield f"{name(obj)}: {role['kind']} {role['name']} to {subject['namespace']}/{subject['name']}"


def _lines(role: Object) -> Iterator[str]:
    for rule in role["rules"]:
        for resource in rule["resources"]:
            (group,) = rule["apiGroups"]
            names = f" {rule['resourceNames']}" if "resourceNames" in rule else ""
            yield f"  {resource}{'.' + group if group else ''}{names}: {' '.join(rule['verbs'])}"


def test_the_rights_are_these_and_no_others(newest: Helm) -> None:
    found = [
        "# All namespaces",
        *rights(newest.objects(EVERYTHING)),
        "",
        "# Two namespaces",
        *rights([obj for obj in newest.objects(NARROW) if "aggregate" not in str(obj)]),
    ]

    assert found == SNAPSHOT.read_text().splitlines()


@pytest.mark.parametrize("values", [EVERYTHING, NARROW], ids=["all namespaces", "two namespaces"])
def test_nothing_dangerous_is_given(newest: Helm, values: Object) -> None:
    """kubernetes-sigs/kueue#6968, vllm-project/production-stack#871: Secrets of all namespaces for the asking."""
    roles = [obj for obj in newest.objects(values) if obj["kind"] in ("Role", "ClusterRole")]

    given = {word for role in roles for rule in role["rules"] for part in rule.values() for word in part}

    assert given & {"*", "secrets", "pods/exec", "serviceaccounts/token", "escalate", "bind", "impersonate"} == set()
