"""The ledger of a job in figures: when it was moved, how moves were judged, what is held. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.api import AllocationRevision, Origin, Stage
from steelyard.balance.bounds import user_hold
from steelyard.balance.ledger import completed, made_at
from steelyard.balance.types import Instant
from steelyard.balance.words import instant
from steelyard.status import Tick

UNJUDGED = "Unjudged"

Ledger = tuple[AllocationRevision, ...]
Count = tuple[tuple[str, ...], float]


@dataclass(frozen=True)
class Judged:
    """What the move that was judged last was expected to bring, and what it brought."""

    predicted_gain: float | None = None
    measured_gain: float | None = None
    predicted_cost: float | None = None
    measured_cost: float | None = None


def ledger(tick: Tick) -> Ledger:
    """The job's revisions after this tick, oldest first."""
    plan = tick.plan
    recorded = {revision.metadata.name: revision for revision in tick.view.revisions}
    if plan.active:
        recorded[plan.active.metadata.name] = plan.active
    for name, status in plan.updates.items():
        recorded[name] = recorded[name].model_copy(update={"status": status})
    return completed(tuple(recorded.values()))


def counts(ledger: Ledger) -> Iterator[Count]:
    found = Counter((one.spec.origin.value, one.status.verdict or UNJUDGED) for one in ledger)
    yield from found.items()


def last_moves(ledger: Ledger) -> Iterator[Count]:
    """A job's first allocation moves nothing."""
    newest: dict[tuple[str, ...], Instant] = {}
    for revision in ledger:
        applied = instant(revision.status.applied_time)
        if applied is None or revision.spec.parent is None:
            continue
        for stage, direction in _directions(revision):
            labels = stage.value, direction, revision.spec.origin.value
            newest[labels] = max(newest.get(labels, applied), applied)
    yield from newest.items()


def _directions(revision: AllocationRevision) -> Iterator[tuple[Stage, str]]:
    """`profile` where replicas went from one GPU profile to another, however many they are now."""
    move = revision.spec.allocation
    changes = move.before.diff(move.after)
    for stage in Stage:
        mine = [change for (moved, _), change in changes.items() if moved is stage]
        if mine:
            yield stage, "up" if min(mine) > 0 else "down" if max(mine) < 0 else "profile"


def last_verdicts(ledger: Ledger) -> Iterator[Count]:
    newest: dict[tuple[str, ...], Instant] = {}
    for revision in ledger:
        judged = instant(revision.status.judged_time)
        if judged is not None and (verdict := revision.status.verdict):
            newest[verdict.value,] = max(newest.get((verdict.value,), judged), judged)
    yield from newest.items()


def last_judged(ledger: Ledger) -> Judged:
    judged = [one for one in ledger if one.status.judged_time and one.status.measured and one.spec.parent]
    if not judged:
        return Judged()
    last = max(judged, key=lambda one: one.spec.number)
    predicted, measured = last.spec.predicted, last.status.measured
    assert measured is not None
    before, after = measured.throughput_before, measured.throughput_after
    cost = measured.transition_cost_seconds
    return Judged(
        predicted_gain=predicted.gain_percent / 100 if predicted else None,
        measured_gain=float(after) / float(before) - 1 if before and after and float(before) > 0 else None,
        predicted_cost=predicted.cost_seconds if predicted else None,
        measured_cost=float(cost) if cost is not None else None,
    )


def hold_since(tick: Tick) -> Instant | None:
    active = _held(tick)
    return made_at(active) if active else None


def hold_expires(tick: Tick) -> Instant | None:
    active = _held(tick)
    return instant(active.spec.expires_at) if active else None


def _held(tick: Tick) -> AllocationRevision | None:
    """The user's revision in force, if it is held at this time."""
    active = tick.plan.active
    held = active and active.spec.origin is Origin.USER and user_hold(active, tick.now)
    return active if held else None
