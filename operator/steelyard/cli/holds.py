"""What `hold`, `pause`, `undo` and `resume` put into a job's ledger or take out of it. Pure; `acting` carries it out.

The operator refuses what the spec does not allow only once it is written; here it is said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steelyard.api import Allocation, AllocationRevision, Origin, Stage, parse_quantity
from steelyard.api.names import LABEL_JOB
from steelyard.balance.ledger import successor
from steelyard.balance.types import Instant, Seen
from steelyard.balance.words import changes, instant, number


@dataclass(eq=False)
class NotAllowed(Exception):
    """What is asked breaks a rule of the job."""

    field: str
    value: object
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value}: {self.rule}"


def present(seen: Seen) -> AllocationRevision:
    """The entry in force. NotAllowed before the first."""
    if seen.active is None:
        raise NotAllowed("status.activeRevision", "none", "the operator has not recorded an allocation of this job yet")
    return seen.active


def with_replicas(seen: Seen, stage: Stage, profile: str | None, replicas: int) -> Allocation:
    """The present allocation with exactly `replicas` of one profile in `stage`.

    Without `profile` it is the one that the stage runs now.
    """
    current, known = present(seen).spec.allocation.after, seen.job.spec.stage(stage).profiles
    if profile is None:
        running = [*current[stage]] or [next(iter(known))]
        if len(running) > 1:
            raise NotAllowed("--profile", "not given", f"{stage} runs {', '.join(running)}: say which it shall have")
        profile = running[0]
    if profile not in known:
        raise NotAllowed("--profile", profile, f"spec.stages.{stage.field}.gpuProfiles has {', '.join(known)}")
    return current.replace(stage, {profile: replicas})


def undone(seen: Seen, number_: int | None) -> AllocationRevision:
    """The entry whose allocation is to come back: that number, else the newest that differs from the present one."""
    current = present(seen).spec.allocation.after
    if number_ is not None:
        found = next((one for one in seen.revisions if one.spec.number == number_), None)
        if found is None:
            kept = ", ".join(str(one.spec.number) for one in seen.revisions)
            raise NotAllowed("--to", number_, f"the ledger has {kept}")
        if found.spec.allocation.after == current:
            raise NotAllowed("--to", number_, f"{found.metadata.name} is what runs now: {current}")
        return found
    before = [one for one in seen.revisions if one.spec.number < present(seen).spec.number and _ran(one)]
    found = next((one for one in reversed(before) if one.spec.allocation.after != current), None)
    if found is None:
        raise NotAllowed("--to", "not given", f"no earlier entry of the ledger has another allocation than {current}")
    return found


def _ran(revision: AllocationRevision) -> bool:
    return revision.status.applied_time is not None


def check(seen: Seen, wanted: Allocation) -> None:
    """NotAllowed when the job's spec, its pin or its pool would keep the operator from applying `wanted`."""
    spec = seen.job.spec
    if spec.scaling.pin is not None:
        raise NotAllowed("spec.scaling.pin", spec.scaling.pin, "a pin is stronger than a hold; remove it first")
    for stage, profile, _ in wanted.entries():
        if profile not in spec.stage(stage).profiles:
            known = ", ".join(spec.stage(stage).profiles)
            raise NotAllowed(f"spec.stages.{stage.field}.gpuProfiles", profile, f"the profiles are {known}")
    for stage in Stage:
        asked, bounds = wanted.replicas(stage), spec.stage(stage).replicas
        if not bounds.min <= asked <= bounds.max:
            rule = f"must lie between min {bounds.min} and max {bounds.max}"
            raise NotAllowed(f"spec.stages.{stage.field}.replicas", asked, rule)
    needed = wanted.gpus(spec.gpu_prices)
    if needed > spec.budget.gpus:
        raise NotAllowed("spec.budget.gpus", number(float(spec.budget.gpus)), _takes(needed, wanted))
    granted = seen.job.status.gpus
    if granted is not None and needed > parse_quantity(granted.budget):
        raise NotAllowed("status.gpus.budget", granted.budget, f"what the pool lends; {_takes(needed, wanted)}")


def _takes(gpus: object, wanted: Allocation) -> str:
    return f"the allocation takes {number(float(str(gpus)), 4)} GPUs: {wanted}"


def hold(seen: Seen, wanted: Allocation, until: datetime | None, why: str) -> AllocationRevision:
    """The next entry of the ledger, which holds `wanted` until `until`; without end when None.

    Raises NotAllowed when the operator would not apply it.
    """
    check(seen, wanted)
    moves = changes(present(seen).spec.allocation.after, wanted)
    reason = why if moves == "nothing" else f"{why}: {moves}"
    entry = successor(seen, wanted, reason, origin=Origin.USER, expires_at=until)
    labels = {LABEL_JOB: seen.job.metadata.name}
    return entry.model_copy(update={"metadata": entry.metadata.model_copy(update={"labels": labels})})


def doubts(seen: Seen) -> list[str]:
    """Why a hold that was written may not show at once."""
    found = []
    if seen.job.spec.suspend:
        found.append("the job is suspended: the hold shows when it goes on")
    conflict = seen.job.status.condition("Conflict")
    if conflict is not None and conflict.status == "True":
        found.append(f"not all replicas are Steelyard's to set: {conflict.message}")
    return found


def in_force(seen: Seen, now: Instant) -> list[AllocationRevision]:
    """The holds that `resume` ends, the newest first: the one in force, and those below it that would be uncovered."""
    if seen.active is None:
        return []
    found = []
    for revision in sorted(seen.revisions, key=lambda one: -one.spec.number):
        if revision.spec.number > seen.active.spec.number:
            continue
        if revision.spec.origin is not Origin.USER or _over(revision, now):
            break
        found.append(revision)
    return found


def _over(revision: AllocationRevision, now: Instant) -> bool:
    expires = instant(revision.spec.expires_at)
    return expires is not None and expires <= now


def after_resume(seen: Seen, ended: Sequence[AllocationRevision]) -> AllocationRevision | None:
    """The entry that is in force once those are deleted."""
    gone = {one.metadata.name for one in ended}
    return Seen(seen.job, tuple(one for one in seen.revisions if one.metadata.name not in gone)).active
