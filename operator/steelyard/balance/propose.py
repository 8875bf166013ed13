"""What could be moved: the stage without GPUs first, which costs nothing of the budget, then the split of the GPUs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from steelyard.api import AgenticRLJobSpec, Allocation, Stage
from steelyard.balance.allocate import Infeasible, allocate
from steelyard.balance.bounds import StageBounds, spec_bounds
from steelyard.balance.model import SERVING, Model, Promise
from steelyard.balance.offers import Choice, Point, Run
from steelyard.balance.purse import Purse, purse_of

SLOT_HEADROOM = 1.25
"""Episodes are sized for so much more than the GPU stages can carry."""
NEARLY = 0.99
"""Replicas that would add less than a hundredth are not asked for."""


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


NO_QUOTA: Mapping[str, Fraction] = {}


def more_slots(
    model: Model,
    spec: AgenticRLJobSpec,
    current: Allocation,
    bounds: Mapping[Stage, StageBounds],
    quota: Mapping[str, Fraction] = NO_QUOTA,
) -> Candidate | None:
    """More environment replicas and nothing else; None when the open episodes do not hold the pipeline back."""
    grown = _more_slots(model, purse_of(spec, quota), current, bounds[Stage.ENVIRONMENT])
    return candidate_of(model, spec, current, grown) if grown != current else None


def better_split(
    model: Model,
    spec: AgenticRLJobSpec,
    current: Allocation,
    bounds: Mapping[Stage, StageBounds],
    quota: Mapping[str, Fraction] = NO_QUOTA,
) -> Candidate | Infeasible | None:
    """The best split of the GPUs, with the episodes it needs; None when it is the present one.

    `quota`: what the namespace's quotas leave to the job's stages, by resource name; absent is unknown, not 0.
    """
    efficient = spec.scaling.objective == "Efficiency"
    split = _split(model, purse_of(spec, quota), current, bounds, efficient=efficient)
    if isinstance(split, Infeasible):
        return split
    return candidate_of(model, spec, current, split) if split != current else None


def candidate_of(model: Model, spec: AgenticRLJobSpec, before: Allocation, after: Allocation) -> Candidate:
    """The move from one allocation to another, with what the model promises of both."""
    prices = spec.gpu_prices
    saved = before.gpus(prices) - after.gpus(prices)
    return Candidate(before, after, model.promise(before), model.promise(after), saved)


def _more_slots(model: Model, purse: Purse, allocation: Allocation, bounds: StageBounds) -> Allocation:
    """`allocation` with enough environment replicas that its GPU stages, not the open episodes, set the pace."""
    promise = model.promise(allocation)
    carried = min(promise.limits[stage] for stage in SERVING)
    if promise.throughput >= carried:
        return allocation
    profiles = allocation[Stage.ENVIRONMENT] or {next(iter(purse.prices[Stage.ENVIRONMENT])): 0}
    main = max(profiles, key=lambda profile: (profiles[profile], profile))
    now = sum(profiles.values())
    for stage in Stage:
        purse = purse.less(stage, allocation[stage])
    high = now + purse.affords(Stage.ENVIRONMENT, main, max(bounds.high - now, 0))

    def reach(replicas: int) -> float:
        slots = min(replicas * model.capacities.slots, model.useful_slots(promise.throughput))
        return min(model.loop(allocation[Stage.SAMPLER], slots), SLOT_HEADROOM * carried)

    replicas = now + bisect_left(range(now, high), NEARLY * reach(high), key=reach)
    return allocation.replace(Stage.ENVIRONMENT, {**profiles, main: profiles[main] + replicas - now})


def _split(
    model: Model,
    purse: Purse,
    current: Allocation,
    bounds: Mapping[Stage, StageBounds],
    *,
    efficient: bool = False,
) -> Allocation | Infeasible:
    """The best split of the GPUs, given how many episodes could run; the environment grows with it if it must."""
    environment = bounds[Stage.ENVIRONMENT]
    slots = max(environment.high, current.replicas(Stage.ENVIRONMENT)) * model.capacities.slots
    playing = current[Stage.ENVIRONMENT]
    left = purse.less(Stage.ENVIRONMENT, playing)
    choices = {stage: _choice(model, left, stage, current[stage], bounds[stage], slots) for stage in SERVING}
    stays = Point(tuple(sorted(playing.items())), purse.cost(Stage.ENVIRONMENT, playing), inf)
    best = allocate({**choices, Stage.ENVIRONMENT: Choice((), stays)}, purse.resources, efficient=efficient)
    if isinstance(best, Infeasible):
        return best
    chosen = Allocation.of({stage: dict(point.counts) for stage, point in best.points.items()})
    return _more_slots(model, purse, chosen, environment)


def _choice(
    model: Model, purse: Purse, stage: Stage, counts: Mapping[str, int], bounds: StageBounds, slots: float
) -> Choice:
    rate = model.rate(stage, counts)
    if stage is Stage.SAMPLER:
        rate = model.episodes(counts, slots, rate)
    now = Point(tuple(sorted(counts.items())), purse.cost(stage, counts), rate)
    if bounds.frozen:
        return Choice((), now)
    return Choice(runs(model, purse, stage, bounds, slots), now)


def runs(model: Model, purse: Purse, stage: Stage, bounds: StageBounds, slots: float) -> tuple[Run, ...]:
    """The curve of each profile that may be used and whose speed is known, as far as the purse reaches."""
    first = max(bounds.low, 1)
    if first > bounds.high:
        return ()
    prices = purse.prices[stage]
    allowed = [profile for profile in sorted(prices) if model.knows(stage, profile) and profile not in bounds.barred]
    most = {profile: purse.affords(stage, profile, bounds.high) for profile in allowed}
    curves = model.rates(  # the first also when it is too dear: to say so
        stage, {profile: range(first, max(most[profile], first) + 1) for profile in allowed}, slots
    )
    return tuple(Run(profile, first, prices[profile], rates) for profile, rates in curves.items())


def unbounded_gain(model: Model, spec: AgenticRLJobSpec, current: Allocation) -> float:
    """The most that any allocation inside the spec could gain, to say honestly when scaling will not help."""
    old = model.throughput(current)
    best = _split(model, purse_of(spec, NO_QUOTA), current, spec_bounds(spec))
    if isinstance(best, Infeasible) or old <= 0:
        return 0.0
    return max(model.throughput(best) / old - 1, 0.0)
