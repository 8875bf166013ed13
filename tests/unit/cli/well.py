"""A cluster in which all is well, and `steelyard check` asked about it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.api import AgenticRLJob
from steelyard.cli.checking import metrics
from steelyard.cli.checking.jobs import referred
from steelyard.cluster.kinds import JOB, POD, Object
from tests.unit.cli.documents import CheckedDocument, CheckReport
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import Answering, lived, steelyard

PATH = JOB.path("default", "calculator")
API = "/apis/steelyard.dev/v1alpha1"
LABELS = {"app.kubernetes.io/name": "steelyard", "app.kubernetes.io/component": "operator"}


def everything(job: Object) -> list[Object]:
    """What the job names, an operator that acts, a node with GPUs and a storage class."""
    container = {"name": "operator", "image": "operator:1", "env": []}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "steelyard-operator", "namespace": "steelyard-system", "labels": LABELS},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"readyReplicas": 1},
    }
    lease = {
        "kind": "Lease",
        "metadata": {"name": "steelyard-operator", "namespace": "steelyard-system"},
        "spec": {
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseDurationSeconds": 15,
            "holderIdentity": "operator-0",
        },
    }
    allocatable = {"cpu": "8", "nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "4"}
    node = {"kind": "Node", "metadata": {"name": "node-1"}, "spec": {}, "status": {"allocatable": allocatable}}
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {"kind": "StorageClass", "metadata": {"name": "fast", "annotations": default}}
    named = [
        {"kind": one.kind.name, "metadata": {"name": one.name, "namespace": "default"}}
        for one in referred(AgenticRLJob.from_cluster({**job, "status": {}}))
    ]
    return [deployment, lease, node, storage, *named]


def well(monkeypatch: pytest.MonkeyPatch) -> State:
    """A job some minutes old, all that it needs, and its metrics."""
    state = lived(50).state()
    put(state, *everything(state.objects[PATH]))
    plurals = ("agenticrljobs", "allocationrevisions", "rlpools")
    state.objects[API] = {"resources": [{"name": name} for name in plurals]}
    monkeypatch.setattr(metrics, "Asking", Answering({"up": [({}, 1.0)], **series(state)}))
    return state


def a_quota(
    state: State, resource: str = "requests.nvidia.com/gpu", most: str = "4", used: str = "4", **spec: Any
) -> None:
    status = {"hard": {resource: most}, "used": {resource: used}}
    metadata = {"name": "team", "namespace": "default"}
    put(state, {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": status})


def series(state: State, without: str = "") -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every series of every pod, but for one metric."""
    pods = [obj["metadata"]["name"] for path, obj in state.objects.items() if path.startswith(POD.path("default"))]
    names = {metric for needed in metrics.NEEDED.values() for metric in needed} - {without}
    return {name: [({"pod": pod}, 1.0) for pod in pods] for name in names}


def check(state: State, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[CheckedDocument]]:
    code, out, _ = steelyard(state, "check", "-o", "json", *arguments, monkeypatch=monkeypatch)
    return code, CheckReport.model_validate(json.loads(out)).items
