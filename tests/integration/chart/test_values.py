"""Every value is described, does something, and is refused with clear words when it cannot be meant."""

import json
import re
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.shell import Failed
from e2e.helm import CHART, ROOT, Helm
from e2e.kube import Object
from tests.integration.chart.rendered import EVERYTHING

PAGES = sorted([ROOT / "README.md", CHART / "README.md", *(ROOT / "docs").rglob("*.md")])
SPEAKING = [CHART / "README.md", ROOT / "docs" / "install.md", ROOT / "docs" / "monitoring.md"]
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

OTHER: dict[str, Any] = {
    "watchNamespaces": ["team-a"],
    "prometheus.url": "http://elsewhere:9090",
    "prometheus.secret": "thanos",
    "prometheus.timeoutSeconds": 2.5,
    "prometheus.bundled.enabled": False,
    "prometheus.bundled.image": "mirror.example/prometheus:v3",
    "prometheus.bundled.scrapeInterval": "1s",
    "prometheus.bundled.retention": "2d",
    "prometheus.bundled.storage": "1Gi",
    "prometheus.bundled.resources": {"limits": {"memory": "1Gi"}},
    "image.registry": "mirror.example/steelyard",
    "image.tag": "9.9.9",
    "image.pullPolicy": "Always",
    "image.pullSecrets": [{"name": "mirror"}],
    "images.operator": "mirror.example/operator@sha256:1",
    "images.sampler": "mirror.example/sampler@sha256:1",
    "images.worker": "mirror.example/worker@sha256:1",
    "images.trainer": "mirror.example/trainer@sha256:1",
    "images.nats": "mirror.example/nats@sha256:1",
    "crds.install": True,
    "rbac.create": False,
    "rbac.userRoles": False,
    "logLevel": "DEBUG",
    "resources": {"limits": {"memory": "1Gi"}},
    "podSecurityContext": {"runAsUser": 1234},
    "securityContext": {"runAsUser": 1234},
    "commonLabels": {"team": "platform"},
    "podLabels": {"mesh": "off"},
    "podAnnotations": {"note": "x"},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "priorityClasses.create": False,
    "priorityClasses.values.operator": 7,
    "priorityClasses.values.trainer": 7,
    "priorityClasses.values.worker": 7,
    "podDisruptionBudget.enabled": False,
    "podDisruptionBudget.maxUnavailable": 0,
    "networkPolicy.enabled": False,
    "monitoring.labels": {"release": "kube-prometheus-stack"},
    "monitoring.serviceMonitor.enabled": False,
    "monitoring.serviceMonitor.interval": "1m",
    "monitoring.podMonitor.enabled": False,
    "monitoring.podMonitor.interval": "1m",
    "monitoring.prometheusRule.enabled": False,
    "monitoring.prometheusRule.runbookBaseUrl": "https://wiki.example/runbooks",
    "monitoring.dashboards.enabled": False,
    "monitoring.dashboards.labels": {"dashboards": "yes"},
    "monitoring.dashboards.annotations": {"grafana_folder": "Learning"},
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-x"}}],
}
"""Of every value another one than in EVERYTHING without the resources, which are long."""
NEEDS: dict[str, Object] = {
    "prometheus.url": {"prometheus": {"bundled": {"enabled": False}}},
    "prometheus.secret": {"prometheus": {"bundled": {"enabled": False}}},
    "priorityClassName": {"priorityClasses": {"create": False}},
}
"""What must be so for a value to count."""
INERT = {"global"}


def paths(schema: Object, prefix: str = "") -> Iterator[str]:
    for key, node in schema["properties"].items():
        if "properties" in node:
            yield from paths(node, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def at(path: str, value: Any) -> Object:
    return reduce(lambda inner, key: {key: inner}, reversed(path.split(".")), value)


def merged(base: Object, change: Object) -> Object:
    both = {
        k: merged(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) else v for k, v in change.items()
    }
    return {**base, **both}


VALUES = sorted(set(paths(SCHEMA)) - INERT)


def test_the_table_speaks_of_every_value() -> None:
    assert sorted(OTHER) == VALUES


def test_no_part_of_the_values_takes_names_that_it_does_not_know() -> None:
    def lax(node: Any, where: str) -> Iterator[str]:
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties") is not False:
                yield where
            for key, inner in node.items():
                yield from lax(inner, f"{where}/{key}")

    assert list(lax(SCHEMA, "")) == []


@pytest.mark.parametrize("path", VALUES)
def test_another_value_makes_something_else(newest: Helm, path: str) -> None:
    before = merged({**EVERYTHING, "crds": {"install": False}}, NEEDS.get(path, {}))

    assert newest.template(merged(before, at(path, OTHER[path]))) != rendered(newest, json.dumps(before))


@cache
def rendered(helm: Helm, values: str) -> str:
    return helm.template(json.loads(values))


REFUSED: dict[str, tuple[Object, list[str]]] = {
    "a name that is almost right": ({"watchNamespace": "team-a"}, ["watchNamespace"]),
    "the right name at the wrong place": ({"prometheus": {"enabled": True}}, ["/prometheus", "enabled"]),
    "one name where a list belongs": ({"watchNamespaces": "team-a"}, ["/watchNamespaces", "array"]),
    "a name no namespace can have": ({"watchNamespaces": ["Team_A"]}, ["/watchNamespaces/0", "Team_A"]),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, ["/watchNamespaces"]),
    "a URL without scheme": ({"prometheus": {"url": "prometheus:9090"}}, ["/prometheus/url", "prometheus:9090"]),
    "a password that everybody would read": (
        {"prometheus": {"url": "http://me:secret@prometheus"}},
        ["/prometheus/url"],
    ),
    "a Secret's content instead of its name": (
        {"prometheus": {"secret": "Bearer x"}},
        ["/prometheus/secret", "Bearer x"],
    ),
    "no time for an answer": ({"prometheus": {"timeoutSeconds": 0}}, ["/prometheus/timeoutSeconds"]),
    "a retention without unit": ({"prometheus": {"bundled": {"retention": "forever"}}}, ["retention", "forever"]),
    "a tag that moves": ({"image": {"tag": "latest"}}, ['image.tag: "latest": the tag latest moves']),
    "a tag that YAML reads as a number": ({"image": {"tag": 0.1}}, ["/image/tag", "string"]),
    "a registry with a scheme": (
        {"image": {"registry": "https://mirror.example"}},
        ["/image/registry", "https://mirror"],
    ),
    "an image without a tag": ({"images": {"trainer": "mirror.example:5000/x"}}, ["/images/trainer", "5000/x"]),
    "an image whose tag moves": ({"images": {"nats": "nats:latest"}}, ['images.nats: "nats:latest": the tag']),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, ["/image/pullPolicy", "IfNotPresent"]),
    "an unknown log level": ({"logLevel": "debug"}, ["/logLevel", "DEBUG"]),
    "more pods than there are": ({"podDisruptionBudget": {"maxUnavailable": 2}}, ["maxUnavailable", "1"]),
    "a priority of the system's": ({"priorityClasses": {"values": {"trainer": 2 * 10**9}}}, ["/values/trainer"]),
    "resources by another name": ({"resources": {"request": {"cpu": 1}}}, ["/resources", "request"]),
    "memory in no unit": ({"resources": {"limits": {"memory": "2 GB"}}}, ["/resources/limits/memory", "2 GB"]),
    "an effect that taints do not have": (
        {"tolerations": [{"effect": "NoRun"}]},
        ["/tolerations/0/effect", "NoExecute"],
    ),
    "a label that finds the chart's pods": (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        ['podLabels: "app.kubernetes.io/name": labels of app.kubernetes.io and helm.sh are the chart\'s own'],
    ),
    "a label that no object can have": ({"commonLabels": {"team": "a b"}}, ["/commonLabels/team", "a b"]),
    "an object without a version": ({"extraObjects": [{"kind": "ConfigMap"}]}, ["/extraObjects/0", "apiVersion"]),
}
"""What somebody might write -> the values, and what the refusal must name."""


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(either: Helm, mistake: str) -> None:
    wrong, words = REFUSED[mistake]

    with pytest.raises(Failed) as refusal:
        either.template(wrong)

    assert [word for word in words if word not in str(refusal.value)] == []


def test_the_linter_of_helm_finds_nothing(either: Helm) -> None:
    assert "[WARNING]" not in either("lint", "--strict", CHART, values=EVERYTHING)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_set_only_values_that_there_are(page: Path) -> None:
    known = set(paths(SCHEMA))

    said = re.findall(r"--set(?:-json|-string|-file)?[ =]'?([\w.]+)", page.read_text())

    assert [value for value in said if value not in known and value.rpartition(".")[0] not in known] == []


@pytest.mark.parametrize("page", SPEAKING, ids=lambda page: page.name)
def test_pages_speak_only_of_values_that_there_are(page: Path) -> None:
    known = [f"{path}." for path in paths(SCHEMA)]

    said = re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)+)(?:=[^`]*)?`", page.read_text())
    ours = [f"{value}." for value in said if value.partition(".")[0] in SCHEMA["properties"]]

    assert ours
    assert [value for value in ours if not any(one.startswith(value) or value.startswith(one) for one in known)] == []
