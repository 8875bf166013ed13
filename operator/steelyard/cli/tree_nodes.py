"""Pure: a job's objects -> the tree of what it consists of, as lines and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steelyard.api.names import BUS, LABEL_PROFILE, LABEL_STAGE, Stage
from steelyard.cli.ages import age, clock
from steelyard.cli.jobs import moment, parse
from steelyard.cli.output import Cell, Column, Tinted, Tone, table
from steelyard.cli.screen import Line
from steelyard.cluster.kinds import Object
from steelyard.cluster.problems import condition, problem

Objects = Mapping[str, Sequence[Object]]
"""Kind -> the job's objects of it."""
COLUMNS = (Column("NAME"), Column("READY"), Column("STATE"), Column("REVISION"), Column("VERSION"), Column("AGE"),
           Column("WHY"))  # fmt: skip
TONES = {
    "Running": Tone.GOOD, "Ready": Tone.GOOD, "Complete": Tone.GOOD, "Succeeded": Tone.GOOD,
    "Failed": Tone.BAD, "Degraded": Tone.BAD, "Stalled": Tone.BAD,
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One line of the tree and what hangs below it."""

    kind: str
    name: str
    ready: str = ""
    state: str = ""
    revision: str = ""
    """The revision that last changed its replicas."""
    version: str = ""
    """The policy version a pod works with."""
    created: datetime | None = None
    why: str = ""
    """What is wrong, in the cluster's words."""
    children: tuple[Node, ...] = ()


def build(job: Object, objects: Objects, versions: Mapping[str, str]) -> Node:
    """The whole tree. `versions`: pod -> policy version, as far as it is known."""
    found = parse(job)
    stages = [_stage(stage, objects, versions) for stage in (BUS, *Stage)]
    return Node(
        "AgenticRLJob",
        found.name,
        state=found.phase,
        revision=found.revision or "",
        created=found.created,
        why="; ".join(f"{name}: {one.reason}: {one.message}" for name, one in found.troubles),
        children=tuple(stages),
    )


def _stage(stage: str, objects: Objects, versions: Mapping[str, str]) -> Node:
    kinds = [kind for kind in objects if kind not in ("Pod", "AllocationRevision")]
    pods = [pod for pod in objects.get("Pod", ()) if _label(pod, LABEL_STAGE) == stage]
    workloads = [
        _workload(kind, obj, stage, objects, pods, versions)
        for kind in kinds
        for obj in objects[kind]
        if _label(obj, LABEL_STAGE) == stage and (_replicas(kind, obj) or any(_of(obj, pod) for pod in pods))
    ]
    mine = {pod["metadata"]["uid"] for pod in pods for kind in kinds for obj in objects[kind] if _of(obj, pod)}
    strays = [_pod(pod, versions) for pod in pods if pod["metadata"]["uid"] not in mine]
    ready = sum(_is_ready(pod) for pod in pods)
    wanted = sum(_replicas(kind, obj) for kind in kinds for obj in objects[kind] if _label(obj, LABEL_STAGE) == stage)
    name = stage if stage == BUS else Stage(stage).field
    return Node("Stage", name, ready=f"{ready}/{wanted}", children=(*workloads, *strays))


def _workload(
    kind: str, obj: Object, stage: str, objects: Objects, pods: Sequence[Object], versions: Mapping[str, str]
) -> Node:
    status, metadata = obj.get("status") or {}, obj["metadata"]
    mine = [pod for pod in pods if _of(obj, pod)]
    refused = condition(status, "ReplicaFailure")
    ended = next((name for name in ("Complete", "Failed") if condition(status, name)), "")
    return Node(
        kind,
        metadata["name"],
        ready=f"{sum(_is_ready(pod) for pod in mine)}/{_replicas(kind, obj)}",
        state="Deleting" if "deletionTimestamp" in metadata else ended,
        revision=_moved_by(objects.get("AllocationRevision", ()), stage, _label(obj, LABEL_PROFILE)),
        created=moment(metadata["creationTimestamp"]),
        why=" ".join(str(refused.get("message", "")).split()) if refused else "",
        children=tuple(_pod(pod, versions) for pod in mine),
    )


def _pod(pod: Object, versions: Mapping[str, str]) -> Node:
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready = _is_ready(pod)
    found = None if ready else problem(status)
    return Node(
        "Pod",
        metadata["name"],
        ready="1/1" if ready else "0/1",
        state=_state(pod, found.reason if found else None),
        version=versions.get(metadata["name"], ""),
        created=moment(metadata["creationTimestamp"]),
        why=found.message if found else "",
    )


def _state(pod: Object, trouble: str | None) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "Pending")
    if "deletionTimestamp" in pod["metadata"]:
        return "Draining"
    if phase in ("Succeeded", "Failed"):
        return phase
    return trouble or ("Ready" if _is_ready(pod) else "Starting" if phase == "Running" else phase)


def _is_ready(pod: Object) -> bool:
    return condition(pod.get("status") or {}, "Ready") is not None and "deletionTimestamp" not in pod["metadata"]


def _label(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name, ""))


def _of(workload: Object, pod: Object) -> bool:
    """Stage and profile name one workload; a pod without owner is what a deleted Job left behind."""
    same = all(_label(pod, name) == _label(workload, name) for name in (LABEL_STAGE, LABEL_PROFILE))
    return same and bool(pod["metadata"].get("ownerReferences"))


def _replicas(kind: str, obj: Object) -> int:
    spec = obj.get("spec") or {}
    if kind != "Job":
        return int(spec.get("replicas", 1))
    over = spec.get("suspend") or condition(obj.get("status") or {}, "Complete")
    return 0 if over else int(spec.get("parallelism", 1))


def _moved_by(revisions: Sequence[Object], stage: str, profile: str) -> str:
    """The newest revision that gave this stage and profile other replicas."""
    if stage == BUS:
        return ""
    field = Stage(stage).field
    for revision in sorted(revisions, key=lambda one: -int(one["spec"]["number"])):
        move = revision["spec"]["allocation"]
        before, after = (((move.get(side) or {}).get(field) or {}).get(profile, 0) for side in ("before", "after"))
        if before != after:
            name: str = revision["metadata"]["name"]
            return name
    return ""


def lines(root: Node, at: datetime, *, headers: bool) -> list[Line]:
    """The tree as a table."""
    found = [("", root), *_below(root, "")]
    rows: list[list[Cell]] = [
        [
            f"{stem}{node.name if node.kind == 'Stage' else f'{node.kind}/{node.name}'}",
            node.ready,
            Tinted(node.state, TONES.get(node.state, Tone.BUSY)),
            node.revision,
            node.version,
            age(node.created, at) if node.created else "",
            node.why,
        ]
        for stem, node in found
    ]
    texts = table(COLUMNS, rows, headers=headers)
    said: list[object] = [(node.kind, node.name, node.ready, node.state, node.version, node.why) for _, node in found]
    return [Line(text, key) for text, key in zip(texts, ["header", *said] if headers else said, strict=True)]


def _below(node: Node, stem: str) -> Iterator[tuple[str, Node]]:
    for place, child in enumerate(node.children):
        last = place == len(node.children) - 1
        yield f"{stem}{'└─' if last else '├─'}", child
        yield from _below(child, f"{stem}{'  ' if last else '│ '}")


def document(node: Node) -> dict[str, Any]:
    """For programs; what is not known is null."""
    return {
        "kind": node.kind,
        "name": node.name,
        "ready": node.ready or None,
        "state": node.state or None,
        "revision": node.revision or None,
        "policyVersion": node.version or None,
        "created": clock(node.created) if node.created else None,
        "reason": node.why or None,
        "children": [document(child) for child in node.children],
    }
