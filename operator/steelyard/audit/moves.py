"""What the moves of the span were worth: each before and after, and all of them against never having moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.api import Allocation, AllocationRevision
from steelyard.audit.gputime import Prices, Reign, reigns
from steelyard.balance.types import Instant
from steelyard.balance.words import changes, instant


@dataclass(frozen=True)
class Move:
    """One revision as a reader wants it."""

    name: str
    number: int
    at: Instant
    """When it was applied; when it was made, if it never was."""
    origin: str
    what: str
    why: str
    predicted: float | None
    """Expected gain of throughput: 0.1 is ten per cent."""
    before: float | None
    """Trajectories per second that the allocation before would have reached."""
    after: float | None
    cost_seconds: float | None
    """What the change cost, in seconds of the old throughput."""
    verdict: str
    """Kept, RolledBack, Inconclusive; else how far it is."""
    evidence: str

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None


def moves(revisions: Sequence[AllocationRevision], start: Instant, end: Instant) -> tuple[Move, ...]:
    """Every revision that was made or in force within the span, oldest first."""
    ruled = {reign.revision.metadata.name for reign in reigns(tuple(revisions), start, end)}
    return tuple(
        _move(one, at)
        for one in sorted(revisions, key=lambda one: one.spec.number)
        if (at := _at(one)) is not None and (start <= at <= end or one.metadata.name in ruled)
    )


def _at(one: AllocationRevision) -> Instant | None:
    return instant(one.status.applied_time) or instant(one.metadata.creation_timestamp)


def _move(one: AllocationRevision, at: Instant) -> Move:
    measured, predicted = one.status.measured, one.spec.predicted
    return Move(
        one.metadata.name,
        one.spec.number,
        at,
        one.spec.origin,
        changes(one.spec.allocation.before, one.spec.allocation.after),
        one.spec.reason,
        predicted.gain_percent / 100 if predicted else None,
        _figure(measured.throughput_before if measured else None),
        _figure(measured.throughput_after if measured else None),
        _figure(measured.transition_cost_seconds if measured else None),
        one.status.verdict or one.status.phase,
        one.status.evidence or "",
    )


@dataclass(frozen=True)
class Static:
    """The span against the same work under the allocation it began with."""

    allocation: Allocation
    gpu_hours: float
    """GPU-hours that were held by allocation."""
    static_gpu_hours: float
    """GPU-hours that the same work would have taken under `allocation`."""
    seconds: float
    """Time that is compared."""
    static_seconds: float
    """Time that the same work would have taken."""
    unknown_seconds: float
    """Time under allocations whose worth was not measured (yet)."""
    moves: int

    @property
    def saved(self) -> float:
        """GPU-hours; negative where the moves lost some."""
        return self.static_gpu_hours - self.gpu_hours

    @property
    def speedup(self) -> float | None:
        return self.static_seconds / self.seconds if self.seconds > 0 else None


def versus_static(
    revisions: Sequence[AllocationRevision], times: Sequence[tuple[Instant, Instant]], prices: Prices
) -> Static | None:
    """The stretches of time `times`, in which the job was seen to run. None without a ledger of them.

    A move that was judged tells by how much its allocation is faster than the one before, drift taken out. The worth
    of an allocation against the first is the product along the way to it. A transition did the work of its length less
    its cost under the allocation before.
    """
    spans = [span for start, end in times for span in reigns(tuple(revisions), start, end)]
    if not spans:
        return None
    base = spans[0].revision.spec.allocation.after
    worth: dict[Allocation, float] = {base: 1.0}
    held = static = compared = unknown = 0.0
    for span in spans:
        done = span.seconds if span.revision is spans[0].revision else _work(span, worth)
        if done is None:
            unknown += span.seconds
            continue
        compared += span.seconds
        static += done
        held += span.seconds * gpus(span.revision.spec.allocation.after, prices) / 3600
    moved = len({span.revision.metadata.name for span in spans}) - 1
    return Static(base, held, static * gpus(base, prices) / 3600, compared, static, unknown, moved)


def _work(span: Reign, worth: dict[Allocation, float]) -> float | None:
    """Seconds that the first allocation would have needed for the work of this reign, None when nobody measured."""
    move, status = span.revision.spec.allocation, span.revision.status
    old, measured = worth.get(move.before), status.measured
    before, after = (
        _figure(measured.throughput_before if measured else None),
        _figure(measured.throughput_after if measured else None),
    )
    if move.after not in worth and old is not None and before and after is not None:
        worth[move.after] = old * after / before
    new = worth.get(move.after)
    if new is None:
        return None
    applied, settled = instant(status.applied_time), instant(status.measuring_time)
    cost = _figure(measured.transition_cost_seconds if measured else None)
    if old is None or cost is None or applied is None or settled is None:
        return span.seconds * new
    changing = max(min(settled, span.end) - max(applied, span.start), 0.0)
    share = changing / (settled - applied) if settled > applied else 0.0
    return max(changing - cost * share, 0.0) * old + (span.seconds - changing) * new


def gpus(allocation: Allocation, prices: Prices) -> float:
    return sum(n * prices.get(stage, {}).get(profile, 0.0) for stage, profile, n in allocation.entries())


def _figure(text: str | None) -> float | None:
    return float(text) if text is not None else None
