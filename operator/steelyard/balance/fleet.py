"""Many jobs on one pool of GPUs: who may hold how many. Pure; the exact allocation inside a job is `allocate`'s.

A job's level is its rate as a share of its own best rate, divided by its weight. The GPUs go out in this order:

1. Guarantees: each job what it is guaranteed, as far as it can use it.
2. What is left is lent, by priority, strictly higher first: at each priority every job first its smallest allocation,
   then the lowest level is raised again and again (weighted max-min). A job whose smallest allocation does not fit
   gets nothing and waits. Waiting raises the priority of its smallest allocation, one for each `ageing_seconds`, so
   nobody waits for ever.

Who gives back first is the same order from its end: borrowed before guaranteed, lower priority before higher, the
highest level before lower ones, newest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite

import numpy as np

from steelyard.api import AgenticRLJobSpec, Stage
from steelyard.balance.bounds import StageBounds, spec_bounds
from steelyard.balance.model import SERVING, Model
from steelyard.balance.propose import runs
from steelyard.balance.purse import Purse, purse_of
from steelyard.balance.stairs import MOST_GPUS, UNITS_PER_GPU, Floats, Units, cleaned, gpu_units, staircase

FIRST_STAIRS = 64
"""Steps of the straight line that stands for a job without measurements."""
TINY_RATE = 1e-9
MOST_STEPS = 10**9
"""Priorities that waiting can add: more would change nothing."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The fewest GPUs for each throughput a job could have: both strictly rising, the first is its least allocation."""

    gpus: Floats
    rate: Floats
    """Trained trajectories per second; only its shape matters, jobs are compared by shares of their best rate."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job asks of the pool. Numbers that make no sense count as their defaults."""

    job: str
    curve: Curve
    weight: float = 1.0
    priority: int = 0
    guaranteed: float = 0.0
    """GPUs that it gets before anybody borrows."""
    limit: float = inf
    """GPUs that it never exceeds."""
    held: float = 0.0
    """GPUs that its pods have or were promised, draining ones included."""
    waiting_seconds: float = 0.0
    """How long it has waited without its least allocation, less how long it was served since, never below 0: served
    jobs so keep for a while what they waited for."""
    since: float = 0.0
    """Unix seconds at which it joined the pool."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a job may hold once everybody has given back what they must."""

    gpus: float
    borrowed: float
    """The part above what it is guaranteed."""
    reason: str


def curve_of(model: Model | None, spec: AgenticRLJobSpec) -> Curve:
    """What the job would do with how many GPUs, within its spec and budget; a straight line until it has a model."""
    purse = purse_of(spec, {})
    gpus, bounds = purse.resources[0], spec_bounds(spec)
    ladders = _ladders(model, purse, bounds) if model else []
    if not ladders:
        return _straight(spec)
    ceiling = min(rates[-1] for _, rates in ladders)
    levels = np.unique(np.concatenate([rates for _, rates in ladders]))
    levels = levels[: levels.searchsorted(ceiling, "right")]
    environment = min(price for price, *_ in purse.prices[Stage.ENVIRONMENT].values())
    units = np.full(len(levels), bounds[Stage.ENVIRONMENT].low * environment, dtype=np.int64)
    for prices, rates in ladders:
        units += prices[rates.searchsorted(levels)]
    affordable = max(int(units.searchsorted(gpus.budget, "right")), 1)
    stairs = staircase(units[:affordable], levels[:affordable])
    return Curve(units[stairs] / gpus.per_one, levels[stairs])


def _ladders(model: Model, purse: Purse, bounds: Mapping[Stage, StageBounds]) -> list[tuple[Units, Floats]]:
    """The staircase (units of GPUs, rates) of each stage that serves; none when the speed of one is not known."""
    slots = bounds[Stage.ENVIRONMENT].high * model.capacities.slots
    ladders = []
    for stage in SERVING:
        found = runs(model, purse, stage, bounds[stage], slots)
        if not found:
            return []
        prices = np.concatenate([one.price[0] * np.arange(one.first, one.first + len(one.rates)) for one in found])
        rates = np.concatenate([one.rates for one in found])
        stairs = staircase(prices, rates)
        ladders.append((prices[stairs], rates[stairs]))
    return ladders


def _straight(spec: AgenticRLJobSpec) -> Curve:
    """As much throughput as GPUs, from the smallest allocation to the largest that the spec allows."""
    least = most = 0.0
    for stage in Stage:
        prices, replicas = spec.stage(stage).profiles.values(), spec.stage(stage).replicas
        least += float(replicas.min * min(prices))
        most += float(replicas.max * max(prices))
    dearest = min(most, float(spec.budget.gpus))
    step = min((float(price) for stage in Stage for price in spec.stage(stage).profiles.values() if price), default=1.0)
    steps = floor(max(dearest - least, 0.0) / step + TINY_RATE)  # no stair that no replica could fill
    gpus = least + step * np.unique(np.append(np.arange(0, steps, ceil((steps + 1) / FIRST_STAIRS)), steps))
    return Curve(gpus, np.maximum(gpus, TINY_RATE))


def share(claims: Sequence[Claim], gpus: float, *, ageing_seconds: float) -> dict[str, Grant]:
    """The target of every job, in the order in which they are served; together never more than `gpus`."""
    pool = gpu_units(gpus)
    shares = [_Share.of(claim, ageing_seconds) for claim in claims]
    shares.sort(key=lambda one: (-one.aged, one.claim.held <= 0, one.claim.since, one.claim.job))
    left = pool
    for caps in ([one.guaranteed for one in shares], [one.limit for one in shares]):
        for one, cap in zip(shares, caps, strict=True):
            one.cap = int(np.searchsorted(one.prices, cap, "right")) - 1
        left = _serve(shares, left)
    return {one.claim.job: _grant(one, pool, left) for one in shares}


def grants_now(targets: Mapping[str, float], held: Mapping[str, float], gpus: float) -> dict[str, float]:
    """GPUs that each job may hold at this moment, on the way to its target: less at once, more only as GPUs are free.

    In the order of `targets`; the sum over jobs of the greater of grant and `held` never exceeds `gpus`, unless more
    is held already.
    """
    has = {job: _units_of(amount) for job, amount in held.items()}
    free = max(gpu_units(gpus) - sum(has.values()), 0)
    grants = {}
    for job, target in targets.items():
        wanted, mine = gpu_units(target), has.get(job, 0)
        more = min(max(wanted - mine, 0), free)
        free -= more
        grants[job] = (min(wanted, mine) + more) / UNITS_PER_GPU
    return grants


def _units_of(held: float) -> int:
    """What GPUs that are held take of the pool, in whole thousandths; nonsense is nothing."""
    return ceil(min(held, MOST_GPUS) * UNITS_PER_GPU - 1e-6) if held > 0 and isfinite(held) else 0


@dataclass(slots=True, eq=False)
class _Share:
    """A claim in whole units while the pool is being divided."""

    claim: Claim
    prices: Units
    levels: Floats
    priority: int
    aged: int
    """Priority of its least allocation: waiting raises it."""
    guaranteed: int
    limit: int
    at: int = -1
    """The stair it has reached; -1 is nothing."""
    cap: int = -1
    """The last stair it may reach for now."""

    @classmethod
    def of(cls, claim: Claim, ageing_seconds: float) -> _Share:
        finite = np.isfinite(claim.curve.gpus) & (claim.curve.gpus >= 0)
        prices = np.ceil(np.minimum(claim.curve.gpus[finite], MOST_GPUS) * UNITS_PER_GPU - 1e-6).astype(np.int64)
        rates = cleaned(claim.curve.rate[finite])
        stairs = staircase(prices, rates)
        prices, rates = prices[stairs], rates[stairs]
        weight = min(max(claim.weight, 1e-6), 1e6) if claim.weight > 0 else 1.0
        limit = gpu_units(claim.limit if claim.limit == claim.limit else inf)
        return cls(
            claim,
            prices,
            rates / (max(rates[-1], 1e-300) * weight) if len(rates) else rates,
            claim.priority,
            claim.priority + _steps(claim.waiting_seconds, ageing_seconds),
            min(gpu_units(claim.guaranteed), limit),
            limit,
        )

    @property
    def units(self) -> int:
        return int(self.prices[self.at]) if self.at >= 0 else 0


def _steps(waiting: float, ageing: float) -> int:
    passed = waiting / ageing if ageing > 0 else 0.0
    return floor(min(passed, MOST_STEPS)) if passed > 0 else 0


def _serve(shares: Sequence[_Share], left: int) -> int:
    """Hand out `left` units up to everybody's cap, highest priority first; returns what nobody could use."""
    entering, climbing = defaultdict(list), defaultdict(list)
    for one in shares:
        entering[one.aged].append(one)
        climbing[one.priority].append(one)
    for priority in sorted({*entering, *climbing}, reverse=True):
        for one in entering[priority]:
            if one.at < 0 <= one.cap and one.prices[0] <= left:
                one.at = 0
                left -= int(one.prices[0])
        left = _raise_lowest([one for one in climbing[priority] if 0 <= one.at < one.cap], left)
    return left


def _raise_lowest(shares: Sequence[_Share], left: int) -> int:
    """Weighted max-min: always the job with the lowest level climbs its next stair, until nobody's next stair fits.

    Sorted by the level they leave, all stairs that fit together are climbed at once; from there on one by one, and who
    cannot climb stays. Ties go to the one that is served first.
    """
    if not shares:
        return left
    owners = np.repeat(np.arange(len(shares)), [one.cap - one.at for one in shares])
    levels = np.concatenate([one.levels[one.at : one.cap] for one in shares])
    costs = np.concatenate([np.diff(one.prices[one.at : one.cap + 1]) for one in shares])
    order = np.argsort(levels, kind="stable")
    owners, costs = owners[order], costs[order]
    spent = np.cumsum(costs)
    together = int(np.searchsorted(spent, left, "right"))
    for index, climbed in enumerate(np.bincount(owners[:together], minlength=len(shares)).tolist()):
        shares[index].at += climbed
    left -= int(spent[together - 1]) if together else 0
    return _climb_singly(shares, owners[together:], costs[together:], left)


def _climb_singly(shares: Sequence[_Share], owners: np.ndarray, costs: Units, left: int) -> int:
    stopped: set[int] = set()
    least = int(costs.min(initial=left + 1))
    for index, cost in zip(owners.tolist(), costs.tolist(), strict=True):
        if left < least or len(stopped) == len(shares):
            break
        if index in stopped:
            continue
        if cost > left:
            stopped.add(index)
            continue
        shares[index].at += 1
        left -= cost
    return left


def _grant(one: _Share, pool: int, left: int) -> Grant:
    gpus = one.units / UNITS_PER_GPU
    borrowed = max(one.units - one.guaranteed, 0) / UNITS_PER_GPU
    return Grant(gpus, borrowed, _reason(one, pool, left, borrowed))


def _reason(one: _Share, pool: int, left: int, borrowed: float) -> str:
    if not len(one.prices):
        return "gets nothing: no allocation of it is known"
    least, most = int(one.prices[0]), int(one.prices[-1])
    if one.at < 0:
        smallest = f"its smallest allocation takes {_gpus(least)}"
        if least > one.limit:
            return f"waits: {smallest} and its limit is {_gpus(one.limit)}"
        if least > pool:
            return f"waits: {smallest} and the pool has {_gpus(pool)}"
        return f"waits: {smallest} and jobs served before it leave {_gpus(left)} of {_gpus(pool)}"
    got = f"gets {_gpus(one.units)}" + (f", {borrowed:g} of them borrowed" if borrowed else "")
    if one.units == most:
        return f"{got}: all it can use"
    if one.at == one.cap:
        return f"{got}: its limit is {_gpus(one.limit)}"
    share = 100 * one.levels[one.at] / one.levels[-1]
    return f"{got}, for {share:.0f} % of its best throughput; with {_gpus(most)} it would have all of it"


def _gpus(units: int) -> str:
    return f"{units / UNITS_PER_GPU:g} GPU{'' if units == UNITS_PER_GPU else 's'}"
