"""What helm says after an install is right for its values. Helm 4, which needs no cluster for this."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from e2e.helm import CHART, NAMESPACE, RELEASE, ROOT, Helm
from e2e.kube import Object

HERE = "\n\n  helm test steelyard --namespace steelyard-system\n\n"
EXAMPLE = "manifests/examples/calculator.yaml"
FIRST_JOB = (
    f"  kubectl apply{{}} -f https://raw.githubusercontent.com/steelyard/steelyard/v{version('steelyard')}/{EXAMPLE}\n"
    "  kubectl steelyard top calculator{}\n"
    "  kubectl steelyard explain calculator{}\n"
)
ANYWHERE, IN_A = FIRST_JOB.format(*3 * [""]), FIRST_JOB.format(*3 * [" --namespace team-a"])
TWO: Object = {"watchNamespaces": ["team-a", "team-b"]}

SAID: dict[str, tuple[Object, list[str], list[str]]] = {
    "the defaults": ({}, ["serves all namespaces; it reads http://prometheus.monitoring:9090.", ANYWHERE], ["WARNING"]),
    "two namespaces": (TWO, ["serves team-a, team-b; it reads", IN_A], ["WARNING", ANYWHERE]),
    "a Prometheus of its own": (
        {"prometheus": {"bundled": {"enabled": True}}},
        ["it reads http://steelyard-prometheus.steelyard-system:9090."],
        ["prometheus.monitoring"],
    ),
    "the resources are somebody else's": ({"crds": {"install": False}}, ["  kubectl get crd agenticrljobs."], []),
    "no rights": ({"rbac": {"create": False}}, ["WARNING: rbac.create is off", "and a ClusterRole."], ["Role in each"]),
    "no rights in two namespaces": (
        {**TWO, "rbac": {"create": False}},
        ["WARNING: rbac.create is off", "and a Role in each of team-a, team-b."],
        ["ClusterRole"],
    ),
    "a monitor where there is no Prometheus Operator": (
        {"monitoring": {"podMonitor": {"enabled": True}}},
        ["WARNING: no PodMonitor was made"],
        ["no ServiceMonitor", "no PrometheusRule"],
    ),
}
"""Values -> what is said, and what is not."""


@pytest.mark.parametrize("case", SAID)
def test_the_next_commands_are_right(newest: Helm, case: str) -> None:
    values, said, unsaid = SAID[case]

    shown = newest("install", RELEASE, CHART, f"--namespace={NAMESPACE}", "--dry-run=client", values=values)

    notes = shown.partition("\nNOTES:\n")[2]
    assert HERE in notes
    assert (ROOT / EXAMPLE).is_file()
    assert [words for words in said if words not in notes] == []
    assert [words for words in unsaid if words in notes] == []
