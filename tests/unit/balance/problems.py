"""Allocation problems small enough to try every combination, for the property tests of the allocator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf, nan

import numpy as np
from hypothesis import strategies as st

from steelyard.api import Stage
from steelyard.balance.offers import Choice, Point, Resource, Run

RATES = st.one_of(st.integers(1, 12).map(float), st.floats(0.01, 50))
NONSENSE = st.sampled_from([nan, inf, -inf, -1.0, 0.0, 1e308, 5e-324])


@dataclass(frozen=True)
class Problem:
    """What `allocate` is asked."""

    choices: dict[Stage, Choice]
    resources: tuple[Resource, ...]


@dataclass(frozen=True)
class Outcome:
    """One combination that fits."""

    throughput: float
    gpus: int
    changed: int


@st.composite
def runs(draw: st.DrawFn, profile: str, resources: int, rates: st.SearchStrategy[float]) -> Run:
    """Up to four replicas, concave or not, dominated or not; a first of more than one is a minimum."""
    price = tuple(draw(st.integers(0, 4)) for _ in range(resources))
    first, most = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    if draw(st.booleans()):
        curve = [draw(rates) for _ in range(most)]
    else:
        exponent, one = draw(st.sampled_from([1.0, 0.9, 0.5, 1.3])), draw(rates)
        curve = [one * (first + n) ** exponent for n in range(most)]
    return Run(profile, first, price, np.array(curve))


@st.composite
def choices(draw: st.DrawFn, resources: int, rates: st.SearchStrategy[float]) -> Choice:
    """Up to three profiles; a stage that is held has none but what it is now."""
    of = [draw(runs(name, resources, rates)) for name in ("whole", "slice", "tiny")[: draw(st.integers(1, 3))]]
    standing = draw(st.sampled_from([None, "one of them", "one of them", "a mix"]))
    if standing is None:
        return Choice(tuple(of))
    if standing == "a mix":
        costs = tuple(draw(st.integers(0, 6)) for _ in range(resources))
        now = Point((("odd", 1), ("whole", 1)), costs, draw(rates))
    else:
        now = draw(st.sampled_from(list(points(Choice(tuple(of))))))
    held = draw(st.integers(0, 5)) == 0
    return Choice(() if held else tuple(of), now)


@st.composite
def problems(draw: st.DrawFn, *, most_resources: int = 3, rates: st.SearchStrategy[float] = RATES) -> Problem:
    """Up to four stages (three with quotas), budgets from nothing to plenty."""
    resources = draw(st.integers(1, most_resources))
    stages = list(Stage)[: draw(st.integers(1, 4 if resources == 1 else 3))]
    budgets = tuple(Resource(name, draw(st.integers(0, 24))) for name in ("GPUs", "CPUs", "GiB of memory")[:resources])
    return Problem({stage: draw(choices(resources, rates)) for stage in stages}, budgets)


def points(choice: Choice) -> Iterator[Point]:
    """Everything the stage may become, one by one."""
    if choice.now is not None:
        yield choice.now
    for run in choice.runs:
        for place, rate in enumerate(run.rates.tolist()):
            n = run.first + place
            yield Point(((run.profile, n),), tuple(n * price for price in run.price), rate)


def fits(problem: Problem, combination: tuple[Point, ...]) -> bool:
    return all(
        sum(point.costs[index] for point in combination) <= resource.budget
        for index, resource in enumerate(problem.resources)
    )


def everything(problem: Problem) -> list[Outcome]:
    """Every combination within the budgets."""
    return [
        Outcome(
            min(point.rate for point in combination),
            sum(point.costs[0] for point in combination),
            changes(problem, combination),
        )
        for combination in product(*(list(points(choice)) for choice in problem.choices.values()))
        if fits(problem, combination)
    ]


def changes(problem: Problem, combination: tuple[Point, ...]) -> int:
    return sum(
        choice.now is not None and point.counts != choice.now.counts
        for point, choice in zip(combination, problem.choices.values(), strict=True)
    )
