"""The search behind `allocate`: what a stage offers at a throughput, and which offers fit the budget together.

At a throughput each profile offers its fewest replicas that reach it; the throughput is feasible when one offer of each
stage fits. With GPUs alone a stage's profiles merge into one staircase and there is nothing to choose; with quotas of
CPU or memory as well, partial sums that others beat in every resource are dropped. Curves need not be concave, and
amounts are whole units, so the optimum is exact (docs/decisions/0009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.stairs import Floats, Indices, Units, cleaned, records, staircase


@dataclass(frozen=True, slots=True)
class Resource:
    """Something the stages share: GPUs first, then what quotas bound."""

    name: str
    budget: int
    """Whole units that all stages together may take."""
    per_one: int = 1
    """Units of one GPU, one core or whatever `name` counts."""

    def amount(self, units: int) -> str:
        return f"{units / self.per_one:g}"


@dataclass(frozen=True, slots=True)
class Point:
    """One way to run a stage."""

    counts: tuple[tuple[str, int], ...]
    """(profile, replicas), the profiles that have any."""
    costs: tuple[int, ...]
    """Units of each resource."""
    rate: float
    """Trained trajectories per second that it could carry."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """`first`, `first` + 1, ... replicas of one profile."""

    profile: str
    first: int
    price: tuple[int, ...]
    """Units of each resource that one replica takes."""
    rates: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What one stage may become: any point of `runs`, or what it is `now`."""

    runs: Sequence[Run]
    now: Point | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Points of a stage with strictly rising rates, none of which costs less than the one before."""

    points: Indices
    rates: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Offers:
    """One stage's points as arrays: what it is now first, if it may stay, then run by run."""

    choice: Choice
    costs: Units
    """Points x resources."""
    rates: Floats
    ladders: Sequence[Ladder]

    @classmethod
    def of(cls, choice: Choice, costs: Units, binding: Sequence[int]) -> Offers:
        """`binding`: the resources that may run out. One ladder over all points when that is one, else one a run."""
        rates = cleaned(
            np.concatenate(
                [np.array([] if choice.now is None else [choice.now.rate]), *(one.rates for one in choice.runs)]
            )
        )
        if len(binding) == 1:
            parts = [staircase(costs[:, binding[0]], rates)]
        else:
            ends = np.cumsum([choice.now is not None, *(len(one.rates) for one in choice.runs)]).tolist()
            parts = [start + records(rates[start:end]) for start, end in pairwise([0, *ends])]
        return cls(choice, costs, rates, [Ladder(part, rates[part]) for part in parts if len(part)])

    @property
    def most(self) -> float:
        return float(self.rates.max())

    def at(self, level: float) -> list[int]:
        """The cheapest point of each ladder that reaches `level`."""
        places = [(ladder, int(ladder.rates.searchsorted(level))) for ladder in self.ladders]
        return [int(ladder.points[place]) for ladder, place in places if place < len(ladder.points)]

    def climbed(self, levels: Floats) -> Units:
        """What the only ladder costs at each of `levels`: levels x resources."""
        ladder = self.ladders[0]
        costs: Units = self.costs[ladder.points[ladder.rates.searchsorted(levels)]]
        return costs

    def is_now(self, index: int) -> bool:
        return index == 0 and self.choice.now is not None

    def point(self, index: int) -> Point:
        """What `index` stands for."""
        if self.choice.now is not None:
            if index == 0:
                return self.choice.now
            index -= 1
        for run in self.choice.runs:
            if index < len(run.rates):
                replicas = run.first + index
                costs = tuple(price * replicas for price in run.price)
                return Point(((run.profile, replicas),), costs, float(run.rates[index]))
            index -= len(run.rates)
        raise IndexError(index)


def costs_of(choice: Choice) -> Units:
    """Costs of all points, points x resources: what the stage is now first, then run by run."""
    costs = [np.outer(np.arange(one.first, one.first + len(one.rates)), one.price) for one in choice.runs]
    now = [] if choice.now is None else [np.array([choice.now.costs], dtype=np.int64)]
    return np.concatenate([*now, *costs])


def best_level(stages: Sequence[Offers], budget: Units) -> float | None:
    """The largest throughput that every stage can reach within `budget`; None when nothing fits."""
    ceiling = min(offers.most for offers in stages)
    levels = np.unique(np.concatenate([[0.0], *(ladder.rates for offers in stages for ladder in offers.ladders)]))
    levels = levels[: levels.searchsorted(ceiling, "right")]
    if all(len(offers.ladders) == 1 for offers in stages):  # nothing to choose, so all levels at once
        within = np.all(sum(offers.climbed(levels) for offers in stages) <= budget, axis=1)
        return float(levels[within][-1]) if within[0] else None
    if not feasible(stages, budget, 0.0):
        return None
    low, high = 1, len(levels)
    while low < high:
        middle = (low + high) // 2
        if feasible(stages, budget, levels[middle]):
            low = middle + 1
        else:
            high = middle
    return float(levels[low - 1])


def feasible(stages: Sequence[Offers], budget: Units, level: float) -> bool:
    """Whether one offer of each stage at `level` fits `budget` together. Most levels need no search: even the least of
    each resource is too much, or the offers with the smallest shares of the budgets fit."""
    costs = [offers.costs[offers.at(level)] for offers in stages]
    if (sum(one.min(axis=0) for one in costs) > budget).any():
        return False
    shares = 1 / np.maximum(budget, 1)
    frugal = sum(one[(one @ shares).argmin()] for one in costs)
    return bool((frugal <= budget).all()) or combine(costs, budget, [0]) is not None


def pick(stages: Sequence[Offers], budget: Units, level: float, *, fewest_moves_first: bool) -> list[int]:
    """A point of each stage that reaches `level`, all within `budget`: with the fewest stages changed and GPUs taken,
    in the order asked for. `level` must be feasible."""
    good = fewest_moves_first and all(offers.is_now(0) and offers.rates[0] >= level for offers in stages)
    if good and (sum(offers.costs[0] for offers in stages) <= budget).all():
        return [0] * len(stages)
    indices = [
        [*([0] if offers.is_now(0) and offers.rates[0] >= level else []), *offers.at(level)] for offers in stages
    ]
    costs = [
        np.column_stack([offers.costs[mine], [offers.choice.now is not None and index != 0 for index in mine]])
        for offers, mine in zip(stages, indices, strict=True)
    ]
    moves = len(budget)
    order = [moves, 0] if fewest_moves_first else [0, moves]
    picked = combine(costs, np.append(budget, len(stages)), order)
    assert picked is not None
    return [mine[place] for mine, place in zip(indices, picked, strict=True)]


def combine(offers: Sequence[Units], budget: Units, order: Sequence[int]) -> list[int] | None:
    """One row of each of `offers` (options x amounts) with the sum within `budget`, least by the columns in `order`;
    None when no sum fits. Partial sums that another one beats in every amount are dropped."""
    later = np.cumsum([one.min(axis=0) for one in offers[::-1]], axis=0)[::-1]
    sums, picks = np.zeros((1, len(budget)), dtype=np.int64), np.zeros((1, 0), dtype=np.intp)
    for place, one in enumerate(offers):
        rest = later[place + 1] if place + 1 < len(offers) else 0
        sums = (sums[:, None, :] + one[None, :, :]).reshape(-1, len(budget))
        chosen = np.tile(np.arange(len(one)), len(picks))
        picks = np.column_stack([picks.repeat(len(one), axis=0), chosen])
        kept = np.flatnonzero((sums + rest <= budget).all(axis=1))
        if place + 1 < len(offers):
            kept = kept[unbeaten(sums[kept])]
        sums, picks = sums[kept], picks[kept]
    if not len(sums):
        return None
    best = np.lexsort([sums[:, column] for column in reversed(order)])[0]
    found: list[int] = picks[best].tolist()
    return found


def unbeaten(sums: Units) -> NDArray[np.bool_]:
    """Which rows no other row equals or beats in every column; of equal rows the first."""
    no_worse: NDArray[np.bool_] = np.all(sums[:, None, :] <= sums[None, :, :], axis=2)
    earlier = np.arange(len(sums))[:, None] < np.arange(len(sums))[None, :]
    beats = no_worse & (earlier | ~no_worse.T)
    beaten: NDArray[np.bool_] = np.any(beats, axis=0)
    return ~beaten
