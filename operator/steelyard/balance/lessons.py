"""What the ledger teaches about the next move: what failed and is barred for a while, and what moves really cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev

from steelyard.api import Allocation, AllocationRevision, Measured, Origin, Stage, Verdict
from steelyard.balance.ledger import is_trial, made_at
from steelyard.balance.types import Instant
from steelyard.balance.words import instant

STARTING_COST_SECONDS = {Stage.SAMPLER: 15.0, Stage.REWARD_SERVER: 5.0, Stage.TRAINER: 2.0, Stage.ENVIRONMENT: 2.0}
"""Seconds of old throughput that adding or removing one replica costs, until the ledger knows better."""

COSTS_KEPT = 9
"""Older moves say little about what a move costs now: models are bigger, images are cached."""
SURPRISE = 2.0
"""Standard deviation of what moves cost, in first guesses: a measurement counts as far as it is better than that."""
OUTLIER_SPREADS = 3.0
MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
MOST_DOUBLINGS = 10

Slot = tuple[Stage, str]


def trials(revisions: Sequence[AllocationRevision]) -> Iterator[AllocationRevision]:
    """Judged moves, newest first."""
    for revision in sorted(revisions, key=lambda revision: -revision.spec.number):
        if is_trial(revision) and revision.status.verdict is not None:
            yield revision


def failures(revisions: Sequence[AllocationRevision]) -> Iterator[AllocationRevision]:
    """Moves that were rolled back, newest first."""
    return (revision for revision in trials(revisions) if revision.status.verdict is Verdict.ROLLED_BACK)


def failures_in_a_row(revisions: Sequence[AllocationRevision]) -> list[AllocationRevision]:
    """The balance's own newest moves that were rolled back one after the other; what users try is their affair."""
    failed = []
    for revision in trials(revisions):
        if revision.spec.origin is not Origin.OPERATOR:
            continue
        if revision.status.verdict is not Verdict.ROLLED_BACK:
            break
        failed.append(revision)
    return failed


def last_good(revisions: Sequence[AllocationRevision]) -> AllocationRevision | None:
    """The newest revision that was neither taken back nor took one back."""
    for revision in sorted(revisions, key=lambda revision: -revision.spec.number):
        if revision.spec.origin is not Origin.ROLLBACK and revision.status.verdict is not Verdict.ROLLED_BACK:
            return revision
    return None


def moved(before: Allocation, after: Allocation) -> set[Stage]:
    """Stages that differ."""
    return {stage for stage, _ in before.diff(after)}


def failures_of(
    revisions: Sequence[AllocationRevision], before: Allocation, after: Allocation
) -> list[AllocationRevision]:
    """Moves that were rolled back and gave the stages they moved what this one would give them, newest first.

    What the other stages have does not count: the same exchange beside one more environment is the same exchange.
    """
    wanted = moved(before, after)
    found = []
    for revision in failures(revisions):
        tried = revision.spec.allocation
        stages = moved(tried.before, tried.after)
        if stages & wanted and all(dict(tried.after[stage]) == dict(after[stage]) for stage in stages):
            found.append(revision)
    return found


def barred_until(failures: Sequence[AllocationRevision], horizon_seconds: float) -> Instant:
    """What failed (newest first) is not tried again for the horizon, twice as long after each further failure."""
    if not failures:
        return 0.0
    at = instant(failures[0].status.judged_time) or made_at(failures[0]) or 0.0
    return at + horizon_seconds * 2.0 ** min(len(failures) - 1, MOST_DOUBLINGS)


def barred_profiles(revisions: Sequence[AllocationRevision], horizon_seconds: float, now: Instant) -> set[Slot]:
    """(stage, profile) that a move introduced and that was rolled back for it, as long as the bar lasts."""
    failed: dict[Slot, list[AllocationRevision]] = {}
    for revision in failures(revisions):
        move = revision.spec.allocation
        for (stage, profile), change in move.before.diff(move.after).items():
            if change > 0 and profile not in move.before[stage]:
                failed.setdefault((stage, profile), []).append(revision)
    return {slot for slot, found in failed.items() if barred_until(found, horizon_seconds) > now}


def never_ready(
    revisions: Sequence[AllocationRevision], horizon_seconds: float, now: Instant
) -> dict[Stage, AllocationRevision]:
    """Stages that were given more replicas of a known profile than got ready (no node, no quota), while the bar lasts.

    Neither as many nor more are asked for meanwhile.
    """
    failed: dict[Stage, list[AllocationRevision]] = {}
    for revision in failures(revisions):
        move = revision.spec.allocation
        if revision.status.settling_time is not None:
            continue
        for stage in moved(move.before, move.after):
            known = set(move.after[stage]) <= set(move.before[stage])
            if known and move.after.replicas(stage) > move.before.replicas(stage):
                failed.setdefault(stage, []).append(revision)
    return {
        stage: min(found, key=lambda one: one.spec.allocation.after.replicas(stage))
        for stage, found in failed.items()
        if barred_until(found, horizon_seconds) > now
    }


@dataclass(frozen=True, slots=True)
class TransitionCost:
    """What a move is expected to cost, in seconds of the old throughput."""

    seconds: float
    error: float = 0.0
    """Standard error of `seconds`; 0 when fewer than two moves of the kind are known."""


def transition_cost(revisions: Sequence[AllocationRevision], before: Allocation, after: Allocation) -> TransitionCost:
    """The first guess for this move, times how much dearer than their guess moves of the same kind were.

    A kind is a set of stages with their directions. A cost that is hardly known, say because the workload changed
    during the move, is drawn to the first guess. Outliers (a slow image pull) are cut to three spreads around the
    median, the spread being the median absolute deviation.
    """
    kind, guess = _kind(before, after), _first_guess(before, after)
    ratios = [
        _ratio(revision.status.measured, expected)
        for revision in sorted(revisions, key=lambda revision: -revision.spec.number)
        if (move := revision.spec.allocation) and revision.spec.parent and _kind(move.before, move.after) == kind
        if revision.status.measured and revision.status.measured.transition_cost_seconds is not None
        if (expected := _first_guess(move.before, move.after)) > 0
    ][:COSTS_KEPT]
    if not ratios:
        return TransitionCost(guess)
    centre = median(ratios)
    reach = OUTLIER_SPREADS * MAD_TO_SIGMA * median(abs(ratio - centre) for ratio in ratios)
    trusted = [min(max(ratio, centre - reach), centre + reach) for ratio in ratios]
    error = stdev(trusted) / sqrt(len(trusted)) if len(trusted) > 1 else 0.0
    return TransitionCost(guess * fmean(trusted), guess * error)


def _ratio(measured: Measured, expected: float) -> float:
    """Cost over what was `expected`, drawn to 1 as far as chance may explain the difference."""
    ratio = float(measured.transition_cost_seconds or 0) / expected
    error = float(measured.transition_cost_error_seconds or 0) / expected
    return 1 + (ratio - 1) * SURPRISE**2 / (SURPRISE**2 + error**2)


def _kind(before: Allocation, after: Allocation) -> frozenset[tuple[Stage, int]]:
    """Stages with their direction: 1 up, -1 down, 0 another profile."""

    def direction(stage: Stage) -> int:
        old, new = before.replicas(stage), after.replicas(stage)
        return (new > old) - (new < old)

    return frozenset((stage, direction(stage)) for stage in moved(before, after))


def _first_guess(before: Allocation, after: Allocation) -> float:
    return sum(STARTING_COST_SECONDS[stage] * abs(change) for (stage, _), change in before.diff(after).items())
