"""`manifests/` is what the chart makes, for people who use kustomize."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.cluster import kubectl
from e2e.cluster.shell import run
from e2e.helm import ROOT, Helm, documents
from e2e.kube import Object
from e2e.manifests import ALL_MONITORING, NAMESPACED, generated
from tests.integration.chart.rendered import by_name

MANIFESTS = ROOT / "manifests"
HELMS_OWN = ("helm.sh/chart", "app.kubernetes.io/managed-by")
OVERLAYS: dict[str, Object] = {"cluster": {}, "namespaced": NAMESPACED, "monitoring": {"monitoring": ALL_MONITORING}}
NOT_OF_THE_CHART = {"Namespace/steelyard-system"}
"""Helm has --create-namespace."""


def build(folder: str | Path) -> list[Object]:
    return documents(run(kubectl(), "kustomize", MANIFESTS / folder))


def normal(obj: Object) -> Object:
    """Without what only Helm or only kustomize writes; environment variables in order, as the kubelet fills them in."""
    metadata: dict[str, Any] = dict(obj["metadata"])
    labels = {key: value for key, value in metadata.pop("labels", {}).items() if key not in HELMS_OWN}
    metadata.pop("annotations", None)
    if obj["kind"] == "CustomResourceDefinition":
        labels = {}
    if obj["kind"] == "Deployment":
        (container,) = obj["spec"]["template"]["spec"]["containers"]
        namespace = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
        filled = [
            {"name": v["name"], "value": metadata["namespace"]} if v.items() >= namespace.items() else v
            for v in container["env"]
        ]
        container["env"] = sorted(filled, key=lambda variable: str(variable["name"]))
    return {**obj, "metadata": {**metadata, "labels": labels}}


def test_what_is_made_of_the_chart_is_as_the_chart_says(newest: Helm) -> None:
    stale = {path for path, content in generated(newest).items() if (MANIFESTS / path).read_text() != content}

    assert stale == set(), "run `make manifests`"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_the_chart_with_its_values(newest: Helm, overlay: str) -> None:
    with_tests = newest.objects(OVERLAYS[overlay])
    by_helm = by_name(normal(obj) for obj in with_tests if obj["kind"] != "Pod")

    by_kustomize = by_name(normal(obj) for obj in build(f"overlays/{overlay}"))

    assert by_kustomize.keys() - by_helm.keys() <= NOT_OF_THE_CHART
    assert {key: by_kustomize[key] for key in by_helm} == by_helm


def test_resources_stay_when_git_or_its_tool_no_longer_asks_for_them() -> None:
    """volcano-sh/volcano#5727: with them goes every job. Helm has an annotation of its own for this."""
    crds = [obj for obj in build("overlays/cluster") if obj["kind"] == "CustomResourceDefinition"]

    assert len(crds) == 3
    for crd in crds:
        assert crd["metadata"]["annotations"] == {
            "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
            "kustomize.toolkit.fluxcd.io/prune": "disabled",
        }


def test_another_overlay_on_top_says_another_namespace_once(tmp_path: Path) -> None:
    """Rights, their subjects and what the operator serves follow."""
    below = os.path.relpath(MANIFESTS / "overlays" / "namespaced", tmp_path.resolve())
    overlay = {"kind": "Kustomization", "namespace": "team-a", "resources": [below]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    objects = build(tmp_path)

    assert {obj["metadata"]["namespace"] for obj in objects} == {"team-a"}
    bound = [subject for obj in objects if obj["kind"] == "RoleBinding" for subject in obj["subjects"]]
    assert {subject["namespace"] for subject in bound} == {"team-a"}
    assert len(bound) == 2
    (deployment,) = (normal(obj) for obj in objects if obj["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "STEELYARD_NAMESPACES", "value": "team-a"} in container["env"]
