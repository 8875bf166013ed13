"""How objects change in a cluster, as values: what `tests.fakes.FakeCluster` keeps and the controllers it plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from steelyard.api.names import FIELD_MANAGER
from steelyard.children.common import Manifest

Object = dict[str, Any]


def applied(before: Object | None, manifest: Manifest) -> Object:
    """Server-side apply as far as it matters here: who leaves out replicas that it owned gets one, else they stay."""
    body = deepcopy(manifest)
    if before is None:
        return body
    body["status"] = before.get("status", {})
    fields = before["metadata"].get("managedFields", [])
    body["metadata"]["managedFields"] = fields
    if "replicas" in before.get("spec", {}) and "replicas" not in body["spec"]:
        ours = any(e["manager"] == FIELD_MANAGER and "f:replicas" in e["fieldsV1"]["f:spec"] for e in fields)
        body["spec"]["replicas"] = 1 if ours else before["spec"]["replicas"]
    return body


def pod_of(workload: Object, *, number: int, ready: bool) -> Object:
    """A pod that runs since its workload asked for it."""
    template = workload["spec"]["template"]
    metadata = {
        **deepcopy(template["metadata"]),
        "name": f"{workload['metadata']['name']}-{number}",
        "namespace": workload["metadata"]["namespace"],
        "ownerReferences": [{"uid": workload["metadata"]["uid"], "controller": True}],
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}] if ready else [],
        "containerStatuses": [{"name": "worker", "state": {"running": {}}}],
    }
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**deepcopy(template["spec"]), "nodeName": "node-1"},
        "status": status,
    }


def workload_status(workload: Object, alive: Sequence[Object]) -> Object:
    """What a workload's controller says of its running pods."""
    ready = sum(_is_ready(pod) for pod in alive)
    return {
        "observedGeneration": workload["metadata"]["generation"],
        "replicas": len(alive),
        "updatedReplicas": len(alive),
        "readyReplicas": ready,
        "active": len(alive),
        "ready": ready,
    }


def gpus_of(pod: Object) -> float:
    """What the pod says it holds of the budget."""
    text: str = pod["metadata"].get("annotations", {}).get("steelyard.dev/gpus", "0")
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def owners(obj: Object) -> set[str]:
    return {ref["uid"] for ref in obj["metadata"].get("ownerReferences", [])}


def runs(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"


def merged(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return deepcopy(over)


def _is_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
