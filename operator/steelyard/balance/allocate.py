"""The exact max-min allocation of one job: Pareto staircases, one sort, one cumulative sum, one search.

Every (profile, replicas) pair of a stage is a point (GPUs, rate). To pass level x every stage needs its next stair at
that level, so the stairs of all stages cut into increments (level, GPUs) and sorted by level give the exact optimum;
no curve has to be concave.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from math import inf

from steelyard.api import Stage

HEADROOM = 1.10
"""Stages off the bottleneck keep at least so much more than the throughput, where the budget allows."""
EFFICIENT = 0.97
"""Efficiency takes the cheapest allocation with at least this share of the best throughput."""
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """One way to run a stage."""

    counts: tuple[tuple[str, int], ...]
    """(profile, replicas), the profiles that have any."""
    gpus: Fraction
    rate: float
    """Trained trajectories per second that it could carry."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What one stage may become. `now` is among `points` when the stage may stay as it is."""

    points: tuple[Point, ...]
    now: Point | None = None


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best that the choices allow within the budget."""

    throughput: float
    points: Mapping[Stage, Point]

    @property
    def gpus(self) -> Fraction:
        return sum((point.gpus for point in self.points.values()), Fraction(0))


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No allocation fits, and the constraint that says so."""

    constraint: str


def staircase(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no other beats in both GPUs and rate: rising GPUs, strictly rising rates."""
    stairs: list[Point] = []
    for point in sorted(points, key=lambda point: (point.gpus, -point.rate, point.counts)):
        if not stairs or point.rate > stairs[-1].rate:
            stairs.append(point)
    return tuple(stairs)


def max_min(stairs: Mapping[Stage, Sequence[Point]], budget: Fraction, ceiling: float = inf) -> Optimum | Infeasible:
    """The allocation with the largest smallest rate, and among those the fewest GPUs; rates above `ceiling` are worth
    nothing."""
    empty = [stage for stage, points in stairs.items() if not points]
    if empty:
        return Infeasible(f"{empty[0]} has no allowed number of replicas")
    least = sum((points[0].gpus for points in stairs.values()), Fraction(0))
    if least > budget:
        return Infeasible(
            f"the smallest allowed allocation takes {float(least):g} GPUs of a budget of {float(budget):g}"
        )
    cap = min([ceiling, *(points[-1].rate for points in stairs.values())])
    increments = sorted(
        (before.rate, after.gpus - before.gpus)
        for points in stairs.values()
        for before, after in pairwise(points)
        if before.rate < cap
    )
    spent = list(accumulate((gpus for _, gpus in increments), initial=least))
    affordable = bisect_right(spent, budget) - 1
    level = cap if affordable == len(increments) else increments[affordable][0]
    return at_level(stairs, level)


def at_level(stairs: Mapping[Stage, Sequence[Point]], level: float) -> Optimum:
    """The cheapest points whose rates all reach `level`."""
    chosen = {
        stage: points[min(bisect_left(points, level, key=lambda point: point.rate), len(points) - 1)]
        for stage, points in stairs.items()
    }
    return Optimum(min([level, *(point.rate for point in chosen.values())]), chosen)


def allocate(
    choices: Mapping[Stage, Choice], budget: Fraction, *, ceiling: float = inf, efficient: bool = False
) -> Optimum | Infeasible:
    """The best allocation for the objective, and among equally good ones the one with the fewest GPUs, then moves.

    Throughput takes GPUs from a stage only when another stage takes them: it changes as few stages as possible and
    shrinks them no further than needed. Efficiency takes the cheapest allocation that is nearly as good.
    """
    stairs = {stage: staircase(choice.points) for stage, choice in choices.items()}
    best = max_min(stairs, budget, ceiling)
    if isinstance(best, Infeasible):
        return best
    if efficient:
        return _stay_if_equal(at_level(stairs, EFFICIENT * best.throughput), choices, EFFICIENT * best.throughput)
    return _fewest_changes(choices, stairs, budget, ceiling, best)


def _stay_if_equal(cheapest: Optimum, choices: Mapping[Stage, Choice], level: float) -> Optimum:
    """Prefer what runs now over another point of the same price."""
    kept = {
        stage: now
        if (now := choices[stage].now) is not None and now.gpus == point.gpus and now.rate >= level
        else point
        for stage, point in cheapest.points.items()
    }
    return Optimum(min(point.rate for point in kept.values()), kept)


def _fewest_changes(
    choices: Mapping[Stage, Choice],
    stairs: Mapping[Stage, Sequence[Point]],
    budget: Fraction,
    ceiling: float,
    best: Optimum,
) -> Optimum:
    movable = [stage for stage, choice in choices.items() if choice.now is not None]
    for size in range(len(movable) + 1):
        found: list[Optimum] = []
        for stay in combinations(movable, len(movable) - size):
            kept = {stage: (now,) for stage in stay if (now := choices[stage].now) is not None}
            trial = max_min({**stairs, **kept}, budget, ceiling)
            if isinstance(trial, Optimum) and trial.throughput >= best.throughput * (1 - TINY):
                found.append(_spend_rest(trial, choices, budget, stay))
        if found:
            return min(found, key=lambda optimum: optimum.gpus)
    return best


def _spend_rest(optimum: Optimum, choices: Mapping[Stage, Choice], budget: Fraction, stay: Sequence[Stage]) -> Optimum:
    """Use GPUs that are left for the changed stages: first headroom, then back towards what they had."""
    points = dict(optimum.points)
    for stage in points:
        if stage in stay:
            continue
        now, chosen = choices[stage].now, points[stage]
        rest = budget - sum((point.gpus for point in points.values()), Fraction(0))
        wanted = max(chosen.gpus, now.gpus if now else Fraction(0))
        better = [
            point
            for point in choices[stage].points
            if chosen.gpus < point.gpus <= chosen.gpus + rest
            and point.rate >= chosen.rate
            and (point.gpus <= wanted or chosen.rate < HEADROOM * optimum.throughput)
        ]
        points[stage] = min(better, key=lambda point: _rank(point, optimum.throughput, wanted), default=chosen)
    return Optimum(min(optimum.throughput, *(point.rate for point in points.values())), points)


def _rank(point: Point, throughput: float, wanted: Fraction) -> tuple[bool, Fraction, float]:
    return point.rate < HEADROOM * throughput, abs(point.gpus - wanted), -point.rate
