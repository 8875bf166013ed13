"""What could be moved: the stage without GPUs first, which costs nothing of the budget, then the split of the GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from steelyard.api import AgenticRLJobSpec, Allocation, Stage
from steelyard.balance.allocate import Choice, Infeasible, Point, allocate
from steelyard.balance.bounds import StageBounds
from steelyard.balance.model import Model, Promise

SLOT_HEADROOM = 1.25
"""Episodes are sized for so much more than the GPU stages can carry."""
NEARLY = 0.99
"""Replicas that would add less than a hundredth are not asked for."""
GPU_STAGES = (Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)


@dataclass(frozen=True)
class Candidate:
    """A move and what the model promises before and after it."""

    before: Allocation
    after: Allocation
    old: Promise
    new: Promise
    gpus_saved: Fraction

    @property
    def gain(self) -> float:
        """Relative gain of throughput."""
        return self.new.throughput / self.old.throughput - 1 if self.old.throughput > 0 else 0.0


def more_slots(
    model: Model, spec: AgenticRLJobSpec, current: Allocation, bounds: Mapping[Stage, StageBounds]
) -> Candidate | None:
    """More environment replicas and nothing else; None when the open episodes do not hold the pipeline back."""
    grown = _more_slots(model, spec, current, bounds[Stage.ENVIRONMENT])
    return _candidate(model, spec, current, grown) if grown != current else None


def better_split(
    model: Model, spec: AgenticRLJobSpec, current: Allocation, bounds: Mapping[Stage, StageBounds]
) -> Candidate | Infeasible | None:
    """The best split of the GPUs, with the episodes it needs; None when it is the present one."""
    split = _split(model, spec, current, bounds)
    if isinstance(split, Infeasible):
        return split
    return _candidate(model, spec, current, split) if split != current else None


def _candidate(model: Model, spec: AgenticRLJobSpec, before: Allocation, after: Allocation) -> Candidate:
    prices = spec.gpu_prices
    saved = before.gpus(prices) - after.gpus(prices)
    return Candidate(before, after, model.promise(before), model.promise(after), saved)


def _more_slots(model: Model, spec: AgenticRLJobSpec, allocation: Allocation, bounds: StageBounds) -> Allocation:
    """`allocation` with enough environment replicas that its GPU stages, not the open episodes, set the pace."""
    promise = model.promise(allocation)
    carried = min(promise.limits[stage] for stage in GPU_STAGES)
    if promise.throughput >= carried:
        return allocation
    profiles = allocation[Stage.ENVIRONMENT] or {next(iter(spec.stage(Stage.ENVIRONMENT).profiles)): 0}
    main = max(profiles, key=lambda profile: (profiles[profile], profile))
    others = sum(profiles.values()) - profiles[main]
    price, rest = _price_and_rest(spec, allocation, main)
    high = bounds.high if price == 0 else min(bounds.high, sum(profiles.values()) + int(rest / price))

    def reach(replicas: int) -> float:
        slots = min(replicas * model.capacities.slots, model.useful_slots(promise.throughput))
        return min(model.loop(allocation[Stage.SAMPLER], slots), SLOT_HEADROOM * carried)

    enough = NEARLY * reach(high)
    replicas = next((n for n in range(sum(profiles.values()), high) if reach(n) >= enough), high)
    return allocation.replace(Stage.ENVIRONMENT, {**profiles, main: max(replicas - others, profiles[main])})


def _price_and_rest(spec: AgenticRLJobSpec, allocation: Allocation, profile: str) -> tuple[Fraction, Fraction]:
    prices = spec.gpu_prices
    return prices[Stage.ENVIRONMENT].get(profile, Fraction(0)), spec.budget.gpus - allocation.gpus(prices)


def _split(
    model: Model, spec: AgenticRLJobSpec, current: Allocation, bounds: Mapping[Stage, StageBounds]
) -> Allocation | Infeasible:
    """The best split of the GPUs, given how many episodes could run; the environment grows with it if it must."""
    prices = spec.gpu_prices
    environment = bounds[Stage.ENVIRONMENT]
    slots = max(environment.high, current.replicas(Stage.ENVIRONMENT)) * model.capacities.slots
    choices = {stage: _choice(model, prices[stage], stage, current, bounds[stage], slots) for stage in GPU_STAGES}
    taken = current.gpus(prices) - sum(
        (n * prices[stage][profile] for stage, profile, n in current.entries() if stage in GPU_STAGES), Fraction(0)
    )
    best = allocate(choices, spec.budget.gpus - taken, efficient=spec.scaling.objective == "Efficiency")
    if isinstance(best, Infeasible):
        return best
    stages: dict[Stage, Mapping[str, int]] = {stage: dict(point.counts) for stage, point in best.points.items()}
    chosen = Allocation.of({**stages, Stage.ENVIRONMENT: current[Stage.ENVIRONMENT]})
    return _more_slots(model, spec, chosen, environment)


def _choice(
    model: Model,
    prices: Mapping[str, Fraction],
    stage: Stage,
    current: Allocation,
    bounds: StageBounds,
    slots: float,
) -> Choice:
    def point(counts: Mapping[str, int]) -> Point:
        gpus = sum((n * prices[profile] for profile, n in counts.items()), Fraction(0))
        rate = model.rate(stage, counts)
        if stage is Stage.SAMPLER:
            rate = model.episodes(counts, slots, rate)
        return Point(tuple(sorted(counts.items())), gpus, rate)

    now = point(current[stage])
    if bounds.frozen:
        return Choice((now,), now)
    points = [
        point({profile: n})
        for profile in prices
        if model.knows(stage, profile) and profile not in bounds.barred
        for n in range(max(bounds.low, 1), bounds.high + 1)
    ]
    return Choice((now, *(one for one in points if one.counts != now.counts)), now)


def unbounded_gain(model: Model, spec: AgenticRLJobSpec, current: Allocation) -> float:
    """The most that any allocation inside the spec could gain, to say honestly when scaling will not help."""
    wide = {stage: StageBounds(spec.stage(stage).replicas.min, spec.stage(stage).replicas.max) for stage in Stage}
    old = model.promise(current).throughput
    best = _split(model, spec, current, wide)
    if isinstance(best, Infeasible) or old <= 0 or old == inf:
        return 0.0
    return max(model.promise(best).throughput / old - 1, 0.0)
