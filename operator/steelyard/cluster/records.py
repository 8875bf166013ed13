"""What the operator remembers of each object: a few fields, read once when the object arrives.

Whole objects would cost ten times the memory; a thousand jobs have sixteen thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from steelyard.api import (
    AgenticRLJob,
    AllocationRevision,
    InvalidResource,
    JobStatus,
    ObjectMeta,
    PoolSource,
    parse_quantity,
)
from steelyard.api.names import FIELD_MANAGER, LABEL_PROFILE, LABEL_STAGE
from steelyard.children.common import ANNOTATION_DIGEST, ANNOTATION_GPUS, ANNOTATION_IMAGES
from steelyard.cluster.problems import Problem, condition, containers, last_words, line, problem

JobKey = tuple[str, str]
"""Namespace and name of a job."""

LATER = "9"
"""After every time that an API server writes."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the API server has it. `resource` is None when its spec breaks a rule; `broken` then says which."""

    key: JobKey
    metadata: ObjectMeta
    status: JobStatus
    resource: AgenticRLJob | None
    broken: str = ""
    pool: PoolSource | None = None
    """Where it draws its GPUs from, also when the rest of its spec is broken."""

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class Revision:
    """One entry of a job's ledger."""

    uid: str
    resource_version: int
    owner: str | None
    resource: AllocationRevision


@dataclass(frozen=True, slots=True)
class Child:
    """An object that a job is made of."""

    kind: str
    name: str
    uid: str
    resource_version: int
    edition: int
    """See `edition`."""
    owner: str | None
    """uid of the controlling owner."""
    digest: str | None
    """Digest of what it was last rendered from."""
    touched_by: str | None
    """Who else wrote to it since our last write, by managedFields; None when nobody did."""
    owns_replicas: bool = False
    """Whether we ever wrote its number of replicas: then leaving it out would set it to one."""
    deleting: bool = False
    replicas: int = 0
    """Pods it asks for; a suspended Job asks for none."""
    caught_up: bool = True
    """Whether its controller has seen the newest spec."""
    created: int = 0
    """Pods its controller says exist."""
    updated: int = 0
    """Pods its controller says are of the newest template."""
    ready: int = 0
    outcome: str | None = None
    """`Complete` or `Failed`, of a Job that ended."""
    refused: str | None = None
    """Why its controller may make no more pods: a quota, an admission policy, in the API server's words."""
    message: str = ""
    images: str | None = None
    """The images this job was started with, as its ConfigMap keeps them."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job."""

    name: str
    uid: str
    resource_version: int
    stage: str
    profile: str
    gpus: Fraction
    bound: bool
    ready: bool
    terminating: bool
    ended: bool
    created: float
    stray: bool = False
    """Whether no controller looks after it: its Job was deleted without it."""
    started: bool = False
    """Whether any of its containers ever ran."""
    up_since: float | None = None
    """Since when all of its containers have run without a restart; None while one does not run."""
    problem: Problem | None = None
    last_words: str = ""
    """Termination message of its worker."""


def job(obj: Mapping[str, Any]) -> Job:
    """Parse once: spec and status apart, so that a status nobody can read any more does not stop the job."""
    metadata = ObjectMeta.model_validate(obj["metadata"])
    key = metadata.namespace, metadata.name
    try:
        status = JobStatus.model_validate(obj.get("status") or {}, extra="ignore")
    except ValueError:
        status = JobStatus()
    pool = _pool(obj)
    try:
        resource = AgenticRLJob.from_cluster({**obj, "status": {}})
    except InvalidResource as error:
        return Job(key, metadata, status, None, str(error), pool)
    return Job(key, metadata, status, resource.model_copy(update={"status": status}), pool=pool)


def _pool(obj: Mapping[str, Any]) -> PoolSource | None:
    try:
        return PoolSource.model_validate((obj.get("spec") or {})["pool"], extra="ignore")
    except (KeyError, ValueError):
        return None


def revision(obj: Mapping[str, Any]) -> Revision:
    """InvalidResource when a hand wrote something that is no revision."""
    metadata = obj["metadata"]
    version, resource = int(metadata["resourceVersion"]), AllocationRevision.from_cluster(obj)
    return Revision(metadata["uid"], version, _owner(metadata), resource)


def ledger(objects: Iterable[Mapping[str, Any]]) -> tuple[list[AllocationRevision], list[str]]:
    """The entries, and a sentence for each object that a hand wrote and that is none."""
    entries, passed_over = [], []
    for obj in objects:
        try:
            entries.append(AllocationRevision.from_cluster(obj))
        except InvalidResource as error:
            passed_over.append(f"{obj['metadata']['name']} is passed over: {error}")
    return entries, passed_over


def child(kind: str, obj: Mapping[str, Any]) -> Child:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    annotations = metadata.get("annotations") or {}
    version = int(metadata["resourceVersion"])
    generation = int(metadata.get("generation") or 0)
    ended = condition(status, "Complete") or condition(status, "Failed") or {}
    managed = metadata.get("managedFields") or ()
    return Child(
        kind=kind,
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version,
        edition=edition(metadata),
        owner=_owner(metadata),
        digest=annotations.get(ANNOTATION_DIGEST),
        touched_by=_touched_by(managed),
        owns_replicas=_owns_replicas(managed),
        deleting="deletionTimestamp" in metadata,
        replicas=_replicas(kind, spec),
        caught_up=kind == "Job" or int(status.get("observedGeneration") or 0) >= generation,
        created=int(status.get("active" if kind == "Job" else "replicas") or 0),
        updated=int(status.get("active" if kind == "Job" else "updatedReplicas") or 0),
        ready=int(status.get("ready" if kind == "Job" else "readyReplicas") or 0),
        outcome=ended.get("type"),
        refused=line(failure["message"]) if (failure := condition(status, "ReplicaFailure")) else None,
        message=ended.get("message", ""),
        images=annotations.get(ANNOTATION_IMAGES),
    )


def edition(metadata: Mapping[str, Any]) -> int:
    """Rises when the object's content does: its generation, or the resourceVersion of kinds without one."""
    return int(metadata.get("generation") or metadata["resourceVersion"])


def pod(obj: Mapping[str, Any]) -> Pod:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    phase = status.get("phase")
    ready = condition(status, "Ready") is not None
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        stage=labels.get(LABEL_STAGE, ""),
        profile=labels.get(LABEL_PROFILE, ""),
        gpus=_gpus(annotations.get(ANNOTATION_GPUS)),
        bound=bool(spec.get("nodeName")),
        ready=ready,
        terminating="deletionTimestamp" in metadata,
        ended=phase in ("Succeeded", "Failed"),
        created=datetime.fromisoformat(metadata["creationTimestamp"]).timestamp(),
        stray=_owner(metadata) is None,
        started=_started(status),
        up_since=_up_since(status, metadata["creationTimestamp"]),
        problem=None if ready else problem(status),
        last_words=last_words(status),
    )


def _started(status: Mapping[str, Any]) -> bool:
    """Whether something of it runs, was restarted, or has done its work; an init container's is only the way to it."""
    if any("running" in (one.get("state") or {}) or one.get("lastState") for one in containers(status)):
        return True
    return any("terminated" in (one.get("state") or {}) for one in status.get("containerStatuses") or ())


def _up_since(status: Mapping[str, Any], created: str) -> float | None:
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    if not states or not all("running" in state for state in states):
        return None
    return max(datetime.fromisoformat(state["running"].get("startedAt", created)).timestamp() for state in states)


def autoscaled_deployment(obj: Mapping[str, Any]) -> str | None:
    """Name of the Deployment whose replicas a HorizontalPodAutoscaler owns."""
    target = obj["spec"]["scaleTargetRef"]
    name: str = target["name"]
    return name if target["kind"] == "Deployment" else None


def _owner(metadata: Mapping[str, Any]) -> str | None:
    return next((ref["uid"] for ref in metadata.get("ownerReferences") or () if ref.get("controller")), None)


def _replicas(kind: str, spec: Mapping[str, Any]) -> int:
    if kind == "Job":
        return 0 if spec.get("suspend") else int(spec.get("parallelism", 1))
    return int(spec.get("replicas", 1)) if kind in ("Deployment", "StatefulSet") else 0


def _touched_by(fields: Iterable[Mapping[str, Any]]) -> str | None:
    """The newest writer besides us, if it wrote no earlier than we did. Status is its controller's to write.

    What came through /scale carries no time, and is gone from here once we have taken the replicas back.
    """
    ours, theirs, who = "", "", None
    for entry in fields:
        time = entry.get("time", LATER)
        if entry.get("subresource") == "status":
            continue
        if entry["manager"] == FIELD_MANAGER:
            ours = max(ours, time)
        elif time >= theirs:
            theirs, who = time, entry["manager"]
    return who if theirs >= ours else None


def _owns_replicas(fields: Iterable[Mapping[str, Any]]) -> bool:
    ours = (entry for entry in fields if entry["manager"] == FIELD_MANAGER and entry.get("subresource") != "status")
    return any("f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {}) for entry in ours)


def _gpus(text: str | None) -> Fraction:
    try:
        return parse_quantity(text) if text else Fraction(0)
    except ValueError:
        return Fraction(0)
