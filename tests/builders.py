"""Jobs and revisions with defaults, for every kind of test: name only what the test is about."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from steelyard.api import (
    AgenticRLJob,
    Allocation,
    AllocationRevision,
    AllocationRevisionStatus,
    Origin,
    RevisionPhase,
    Stage,
    revision_name,
)

WHOLE = {"name": "whole", "resources": {"nvidia.com/gpu": 1}, "gpus": "1"}
SLICE = {
    "name": "slice",
    "resources": {"nvidia.com/gpu.shared": 1},
    "gpus": "500m",
    "speedPercent": 45,
    "memoryPercent": 45,
}

_SPEC: dict[str, Any] = {
    "model": {"path": "/models/tiny"},
    "tasks": {"configMap": {"name": "calculator-tasks"}},
    "budget": {"gpus": 8},
    "stages": {
        "sampler": {"replicas": {"min": 1, "max": 6}, "gpuProfiles": [WHOLE, SLICE]},
        "environment": {"replicas": {"min": 1, "max": 32}, "entrypoint": "calculator:environment"},
        "rewardServer": {
            "replicas": {"min": 1, "max": 4},
            "gpuProfiles": [WHOLE, SLICE],
            "entrypoint": "calculator:reward",
        },
        "trainer": {"gpuProfiles": [WHOLE]},
    },
}


def job_manifest(
    changes: Mapping[str, Any] | None = None, *, name: str = "calculator", namespace: str = "default"
) -> dict[str, Any]:
    """A valid manifest; `changes` maps dotted paths below spec to values: {"stages.sampler.replicas.max": 3}.

    A step of digits indexes a list; the value `...` removes the field.
    """
    manifest = {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "AgenticRLJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": deepcopy(_SPEC),
    }
    for path, value in (changes or {}).items():
        _set(manifest["spec"], path.split("."), deepcopy(value) if value is not ... else ...)
    return manifest


def _set(node: Any, path: list[str], value: Any) -> None:
    *parents, last = (int(step) if step.isdigit() else step for step in path)
    for step in parents:
        node = node[step] if isinstance(step, int) else node.setdefault(step, {})
    if value is ...:
        del node[last]
    else:
        node[last] = value


def pool_manifest(changes: Mapping[str, Any] | None = None, *, name: str = "shared") -> dict[str, Any]:
    """Eight GPUs of which two queues may use all; `changes` as for jobs. `high` goes before `low`."""
    queues = [
        {"name": "high", "namespaces": ["default"], "priority": 10},
        {"name": "low", "namespaces": ["default"]},
    ]
    manifest = {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "RLPool",
        "metadata": {"name": name},
        "spec": {"gpus": 8, "queues": queues},
    }
    for path, value in (changes or {}).items():
        _set(manifest["spec"], path.split("."), deepcopy(value) if value is not ... else ...)
    return manifest


def a_job(
    changes: Mapping[str, Any] | None = None,
    *,
    name: str = "calculator",
    namespace: str = "default",
    uid: str = "0a000000-0000-0000-0000-000000000001",
    generation: int = 1,
    status: Mapping[str, Any] | None = None,
) -> AgenticRLJob:
    """A job as the API server would return it."""
    manifest = job_manifest(changes, name=name, namespace=namespace)
    manifest["metadata"] |= {"uid": uid, "generation": generation}
    return AgenticRLJob.from_cluster({**manifest, "status": status or {}})


START: dict[Stage, dict[str, int]] = {
    Stage.SAMPLER: {"whole": 4},
    Stage.ENVIRONMENT: {"default": 1},
    Stage.REWARD_SERVER: {"whole": 1},
    Stage.TRAINER: {"whole": 1},
}
"""Six of the eight GPUs of the default job."""


def an_allocation(changes: Mapping[Stage, Mapping[str, int]] | None = None) -> Allocation:
    """START with other replicas in the stages that `changes` names."""
    return Allocation.of({**START, **(changes or {})})


def a_revision(
    number: int = 1,
    after: Allocation | None = None,
    *,
    before: Allocation | None = None,
    job: str = "calculator",
    namespace: str = "default",
    origin: Origin = Origin.OPERATOR,
    phase: RevisionPhase = RevisionPhase.PENDING,
    reason: str = "initial allocation",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> AllocationRevision:
    """An entry of the ledger of `job`; its parent is the revision before it, `status` and `spec` add fields by name."""
    after = after or an_allocation()
    return AllocationRevision.model_validate(
        {
            "metadata": {
                "name": revision_name(job, number),
                "namespace": namespace,
                "labels": {"steelyard.dev/job": job},
            },
            "spec": {
                "number": number,
                "parent": revision_name(job, number - 1) if number > 1 else None,
                "origin": origin,
                "allocation": {"before": before or Allocation(), "after": after},
                "reason": reason,
                **spec,
            },
            "status": AllocationRevisionStatus.model_validate({"phase": phase, **(status or {})}),
        }
    )
