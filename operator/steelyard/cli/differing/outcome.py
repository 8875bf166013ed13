"""Pure: a job as it is, and as it would be -> which fields, replicas, pods and objects would be other ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.balance.types import Decision, Instant
from steelyard.children.common import IMAGE_ROLES, Images, Slot, workload_kind
from steelyard.children.pods import spec_values
from steelyard.children.render import asks_for_other_pods, kept_images, render
from steelyard.cli.differing.asking import Applied, Decided
from steelyard.cli.looking import Scene
from steelyard.cluster.changes import Action, changes
from steelyard.cluster.view import View

ANY_IMAGES = Images(dict.fromkeys(IMAGE_ROLES, "the operator's"))
"""Of a job that is not there yet: which images it gets changes nothing of what is told."""


class Pods(StrEnum):
    """What becomes of the pods of a stage and profile."""

    KEEP = "keep"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    UNKNOWN = "unknown"
    """Whoever wrote what runs now renders it otherwise than this tool: an operator of another version."""


@dataclass(frozen=True)
class Field:
    """A field of the spec; None is one that is left to its default."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Replicas:
    """Replicas of a stage and GPU profile."""

    stage: Stage
    profile: str
    before: int
    after: int
    pods: Pods
    price: Fraction
    """GPUs of one."""


@dataclass(frozen=True)
class Outcome:
    """What applying a file would come to."""

    job: AgenticRLJob
    new: bool
    """Whether the job is not there yet."""
    fields: tuple[Field, ...]
    decision: Decision
    """The operator's first, on what is measured now."""
    replicas: tuple[Replicas, ...]
    objects: tuple[tuple[str, str, str], ...] | None
    """What would be done, kind and name; of all but the workloads, which `replicas` tells of. None when not all that is
    there could be read."""

    @property
    def differs(self) -> bool:
        """Whether the file is the cause of anything: a move that comes anyway is none of its doing."""
        return self.new or bool(self.fields)

    @property
    def gpus_before(self) -> float:
        return float(sum(one.price * one.before for one in self.replicas))

    @property
    def gpus_after(self) -> float:
        return float(sum(one.price * one.after for one in self.replicas))


def outcome(found: Applied, at: Scene, decided: Decided) -> Outcome:
    """`at` is the scene of the job as it would be, `decided` the balance's answer about it."""
    view, job, plan = found.looked.view, at.own, decided.plan
    allocation = plan.active.spec.allocation.after if plan.active else Allocation()
    runs = not (at.resting or job.spec.suspend)
    replicas = tuple(_replicas(found, job, allocation if runs else Allocation()))
    objects = None if found.looked.lacking else tuple(_objects(view, at, allocation, decided.now))
    return Outcome(job, found.live is None, _fields(found, job), plan.decision, replicas, objects)


def _fields(applied: Applied, job: AgenticRLJob) -> tuple[Field, ...]:
    """Fields of the spec that differ, by path; of a new job there is nothing to compare with."""
    if applied.live is None:
        return ()
    live = spec_values(applied.now) if applied.now else applied.live.get("spec")
    before, after = dict(_leaves(live, "spec")), dict(_leaves(spec_values(job), "spec"))
    found = (Field(path, before.get(path), after.get(path)) for path in dict.fromkeys([*before, *after]))
    return tuple(one for one in found if one.before != one.after)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Lists count as one value: their items have no names."""
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}")
    else:
        yield path, value


def _replicas(found: Applied, job: AgenticRLJob, allocation: Allocation) -> Iterator[Replicas]:
    view = found.looked.view
    held = view.held(job)
    wanted: dict[Slot, int] = {(stage, profile): n for stage, profile, n in allocation.entries()}
    old = dict(_prices(found.now)) if found.now else {}  # a profile that the file leaves out may still run
    for slot, price in {**old, **dict(_prices(job))}.items():
        child = view.workload(slot)
        before = child.replicas if child and not child.outcome else 0
        after = before if slot[0] in held else wanted.get(slot, 0)
        if before or after:
            yield Replicas(*slot, before, after, _pods(found, job, slot, before, after), price)


def _prices(job: AgenticRLJob) -> Iterator[tuple[Slot, Fraction]]:
    for stage, prices in job.spec.gpu_prices.items():
        for profile, price in prices.items():
            yield (stage, profile), price


def _pods(found: Applied, job: AgenticRLJob, slot: Slot, before: int, after: int) -> Pods:
    if not (before and after):
        return Pods.START if after else Pods.STOP
    view = found.looked.view
    images = kept_images(view, job)
    if found.now is None or images is None or asks_for_other_pods(view, found.now, slot, images):
        return Pods.UNKNOWN
    return Pods.RESTART if asks_for_other_pods(view, job, slot, images) else Pods.KEEP


def _objects(view: View, at: Scene, allocation: Allocation, now: Instant) -> Iterator[tuple[str, str, str]]:
    images = kept_images(view, at.own) or ANY_IMAGES
    wanted = render(view, at.own, allocation, images, at.ended, at.means, now)
    acknowledged = {child.uid: child.edition for child in view.children.values()}
    workloads = {workload_kind(stage) for stage in Stage}
    for change in changes(view.job.metadata.uid, wanted, view.children, acknowledged):
        if change.kind not in workloads and change.action is not Action.SCALE:
            does = "create" if change.child is None else "change" if change.manifest else "delete"
            yield does, change.kind, change.name
