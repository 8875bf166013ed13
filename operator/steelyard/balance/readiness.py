"""Whether the replicas that a revision asks for are there, what keeps them, and how long that is put up with."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from steelyard.api import AllocationRevision, Stage
from steelyard.balance.types import Seen, StageCounts

READY_SECONDS = 1800.0
"""A move whose replicas are not all ready by then has failed: large models load for many minutes."""
FAILING_SECONDS = 300.0
"""Replicas that cannot start (image, scheduling, crash loop) get so long, plus the drain that may free their GPUs."""
REFUSED_SECONDS = 30.0
"""What a quota refuses is given up after so long, plus the drain that may free it: the scaler stops asking."""
GATED = "SchedulingGated"
"""A queue (Kueue, say) holds the pod back. That is waiting, not failing: who takes it away loses its place."""


@dataclass(frozen=True)
class Lacking:
    """One (stage, profile) that is not as the revision wants it."""

    words: str
    failing: bool = False
    """Something is wrong with its pods, more than that they take their time."""
    refused: bool = False
    """The API server lets nobody make its pods."""
    gated: bool = False
    """A queue holds its pods back."""


def lacking(revision: AllocationRevision, seen: Seen) -> list[Lacking]:
    """What is not there yet: all of it for a first revision, only of the stages that changed for a move."""
    move = revision.spec.allocation
    changed = {stage for stage, _ in move.before.diff(move.after)}
    return [
        found
        for stage, profile, n in move.after.entries()
        if stage in changed and (found := _lacking(stage, n, seen.stages.get(stage, {}).get(profile)))
    ]


def patience_seconds(found: list[Lacking], revision: AllocationRevision, seen: Seen) -> float:
    """How long after it was applied a revision may lack this before it has failed."""
    if any(one.gated for one in found):
        return inf
    if any(one.refused for one in found):
        return REFUSED_SECONDS + _drain_seconds(revision, seen)
    if any(one.failing for one in found):
        return min(READY_SECONDS, FAILING_SECONDS + _drain_seconds(revision, seen))
    return READY_SECONDS


def _lacking(stage: Stage, wanted: int, counts: StageCounts | None) -> Lacking | None:
    if counts is None:
        return Lacking(f"{stage} 0 of {wanted} ready")
    if counts.ready >= wanted and counts.desired == wanted:
        return None
    problems = sorted({*counts.failed, *(pod.problem for pod in counts.pods if pod.problem and not pod.ready)})
    why = "; ".join([counts.refused] if counts.refused else problems)
    return Lacking(
        f"{stage} {counts.ready} of {wanted} ready{f' ({why})' if why else ''}",
        failing=bool(problems),
        refused=counts.refused is not None,
        gated=GATED in problems,
    )


def _drain_seconds(revision: AllocationRevision, seen: Seen) -> float:
    """What shrinks may drain so long, and holds its GPUs and its quota meanwhile."""
    changes = revision.spec.allocation.before.diff(revision.spec.allocation.after)
    return float(
        max((seen.job.spec.stage(stage).drain_seconds for (stage, _), n in changes.items() if n < 0), default=0)
    )
