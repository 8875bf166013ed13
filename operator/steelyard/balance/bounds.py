"""Bounding gates: what each stage may become, decided *for* the allocator; and allocations put right with the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.api import AgenticRLJobSpec, Allocation, AllocationRevision, Origin, Stage, Verdict
from steelyard.balance.ledger import is_trial, last_change, made_at
from steelyard.balance.lessons import barred_profiles, never_ready
from steelyard.balance.types import Instant, Seen
from steelyard.balance.words import seconds

MOST_GROWTH = 2
"""A stage at most doubles or halves in one move: the model was measured where the stage is now."""


@dataclass(frozen=True, slots=True)
class StageBounds:
    """Replicas a stage may have after this tick's move."""

    low: int
    high: int
    frozen: str | None = None
    """Why it stays exactly as it is, if it must."""
    barred: frozenset[str] = frozenset()
    """Profiles not to be tried for now: a move to them was rolled back."""
    limited: str | None = None
    """Why it may become less than the spec allows, when a failed move is the reason."""


Bounds = Mapping[Stage, StageBounds]
Limiter = Callable[[Seen, Allocation, Instant, Bounds], Bounds]
"""Takes some of what stages may become, never adds to it."""


def stage_bounds(seen: Seen, current: Allocation, now: Instant) -> Bounds:
    """What every stage may become, after all limiters."""
    bounds = spec_bounds(seen.job.spec)
    for _, limiter in LIMITERS:
        bounds = limiter(seen, current, now, bounds)
    return bounds


def spec_bounds(spec: AgenticRLJobSpec) -> Bounds:
    """What the spec alone allows."""
    return {stage: StageBounds(spec.stage(stage).replicas.min, spec.stage(stage).replicas.max) for stage in Stage}


def growth(_: Seen, current: Allocation, __: Instant, bounds: Bounds) -> Bounds:
    """At most double or half."""

    def less(stage: Stage, bound: StageBounds) -> StageBounds:
        replicas = current.replicas(stage)
        low = max(bound.low, -(-replicas // MOST_GROWTH))
        high = min(bound.high, max(replicas * MOST_GROWTH, 1))
        return replace(bound, low=min(low, high), high=high)

    return {stage: less(stage, bound) for stage, bound in bounds.items()}


def failures(seen: Seen, current: Allocation, now: Instant, bounds: Bounds) -> Bounds:
    """Without what failed of late: fewer replicas than never got ready, no profile that was rolled back."""
    horizon = seen.job.spec.scaling.horizon_seconds
    lacked = never_ready(seen.revisions, horizon, now)
    barred = barred_profiles(seen.revisions, horizon, now)
    return {
        stage: _less(
            bound,
            stage,
            current.replicas(stage),
            lacked.get(stage),
            frozenset(profile for of, profile in barred if of is stage),
        )
        for stage, bound in bounds.items()
    }


def cooldown(seen: Seen, current: Allocation, now: Instant, bounds: Bounds) -> Bounds:
    """A stage that was moved rests."""
    return _frozen(current, bounds, {stage: why for stage in Stage if (why := _resting(seen, stage, now))})


def ownership(seen: Seen, current: Allocation, _: Instant, bounds: Bounds) -> Bounds:
    """What somebody else scales is left alone."""
    return _frozen(current, bounds, seen.held)


LIMITERS: tuple[tuple[str, Limiter], ...] = (
    ("Growth", growth),
    ("Failures", failures),
    ("Cooldown", cooldown),
    ("Ownership", ownership),
)
"""What narrows the spec's own bounds, in order; the last word is that of whoever owns the replicas."""


def _frozen(current: Allocation, bounds: Bounds, why: Mapping[Stage, str]) -> Bounds:
    still = {
        stage: StageBounds(current.replicas(stage), current.replicas(stage), reason) for stage, reason in why.items()
    }
    return {**bounds, **still}


def _less(
    bound: StageBounds, stage: Stage, replicas: int, lacked: AllocationRevision | None, barred: frozenset[str]
) -> StageBounds:
    high, reasons = bound.high, []
    if lacked is not None:
        asked = lacked.spec.allocation.after.replicas(stage)
        high = max(min(high, asked - 1), min(replicas, high))
        reasons.append(f"{lacked.metadata.name} asked for {asked} {stage} replicas that never got ready")
    if barred:
        reasons.append(f"{stage} was rolled back from {', '.join(sorted(barred))}")
    return StageBounds(min(bound.low, high), high, barred=barred, limited="; ".join(reasons) or None)


def _resting(seen: Seen, stage: Stage, now: Instant) -> str | None:
    """A stage rests after each move, twice as long when the move proved nothing."""
    change = last_change(seen.revisions, stage)
    at = made_at(change) if change else None
    if change is None or at is None:
        return None
    rest = float(seen.job.spec.scaling.cooldown_seconds)
    if is_trial(change) and change.status.verdict is Verdict.INCONCLUSIVE:
        rest *= 2
    left = at + rest - now
    return f"{stage} was moved by {change.metadata.name} and rests for {seconds(left)} more" if left > 0 else None


def repaired(spec: AgenticRLJobSpec, allocation: Allocation) -> Allocation:
    """The nearest allocation that the spec allows: known profiles, replicas within bounds, GPUs within the budget."""
    stages = {stage: _within(spec, stage, allocation[stage]) for stage in Stage}
    prices = spec.gpu_prices
    while Allocation.of(stages).gpus(prices) > spec.budget.gpus:
        if heaviest := _heaviest(spec, stages, prices):
            stage, profile = heaviest
            stages[stage] = {**stages[stage], profile: stages[stage][profile] - 1}
        elif dearest := _dearest(stages, prices):
            stage, profile, cheapest = dearest
            counts = stages[stage]
            stages[stage] = {**counts, profile: counts[profile] - 1, cheapest: counts.get(cheapest, 0) + 1}
        else:
            break  # the API refuses a budget below the sum of the minima; an older job is left at its minima
    return Allocation.of(stages)


def _heaviest(
    spec: AgenticRLJobSpec, stages: Mapping[Stage, Mapping[str, int]], prices: Mapping[Stage, Mapping[str, Fraction]]
) -> tuple[Stage, str] | None:
    """The profile of the stage with the most GPUs that may still shrink."""
    shrinkable = [
        (sum(n * prices[stage][name] for name, n in counts.items()), prices[stage][profile], stage, profile)
        for stage, counts in stages.items()
        for profile, n in counts.items()
        if n > 0 and prices[stage][profile] > 0 and sum(counts.values()) > spec.stage(stage).replicas.min
    ]
    return max(shrinkable)[2:] if shrinkable else None


def _dearest(
    stages: Mapping[Stage, Mapping[str, int]], prices: Mapping[Stage, Mapping[str, Fraction]]
) -> tuple[Stage, str, str] | None:
    """The profile in use that costs most above the cheapest of its stage, and that cheapest one."""
    cheapest = {stage: min(prices[stage], key=prices[stage].__getitem__) for stage in stages}
    savings = [
        (prices[stage][profile] - prices[stage][cheapest[stage]], stage, profile)
        for stage, counts in stages.items()
        for profile, n in counts.items()
        if n > 0
    ]
    saved, stage, profile = max(savings, default=(Fraction(0), Stage.SAMPLER, ""))
    return (stage, profile, cheapest[stage]) if saved > 0 else None


def _within(spec: AgenticRLJobSpec, stage: Stage, counts: Mapping[str, int]) -> dict[str, int]:
    profiles, replicas = spec.stage(stage).profiles, spec.stage(stage).replicas
    first = next(iter(profiles))
    kept: dict[str, int] = {}
    for profile, n in counts.items():
        name = profile if profile in profiles else first
        kept[name] = kept.get(name, 0) + n
    for name in [*reversed(profiles)]:
        surplus = sum(kept.values()) - replicas.max
        if surplus > 0 and name in kept:
            kept[name] = max(kept[name] - surplus, 0)
    lacking = replicas.min - sum(kept.values())
    if lacking > 0:
        main = max(kept, key=lambda name: kept[name], default=first)
        kept[main] = kept.get(main, 0) + lacking
    return kept


def user_hold(active: AllocationRevision, now: Instant) -> str | None:
    """A user's own revision is held until it expires; then it is judged like any other move."""
    if active.spec.origin is not Origin.USER:
        return None
    expires = active.spec.expires_at
    if expires is None:
        return f"{active.metadata.name} is held by its user, without end"
    left = expires.timestamp() - now
    return f"{active.metadata.name} is held by its user for {seconds(left)} more" if left > 0 else None
