"""The allocator against brute force over every combination, and its promises on any input."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import Stage
from steelyard.balance.allocate import EFFICIENT, Choice, Infeasible, Optimum, Point, allocate
from tests.property.effort import a_tenth

pytestmark = pytest.mark.timeout(1800)  # thousands of cases

GPUS = st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2)])
RATES = st.one_of(st.integers(1, 12).map(float), st.floats(0.01, 50))


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Up to two profiles of up to three replicas, concave or not, with or without a present state."""
    found = []
    for profile in ("whole", "slice")[: draw(st.integers(1, 2))]:
        gpus, rate = draw(GPUS), draw(RATES)
        exponent = draw(st.sampled_from([1.0, 0.9, 0.5, 1.3]))
        found += [Point(((profile, n),), n * gpus, rate * n**exponent) for n in range(1, draw(st.integers(1, 3)) + 1)]
    now = draw(st.one_of(st.none(), st.sampled_from(found)))
    return Choice(tuple(found), now)


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[Stage, Choice], Fraction]:
    stages = list(Stage)[: draw(st.integers(1, 4))]
    return {stage: draw(choices()) for stage in stages}, draw(st.integers(1, 40)) * Fraction(1, 4)


def everything(problem: dict[Stage, Choice], budget: Fraction) -> list[tuple[float, Fraction, int]]:
    """(throughput, GPUs, stages changed) of every combination within the budget."""
    found = []
    for combination in product(*(choice.points for choice in problem.values())):
        gpus = sum((point.gpus for point in combination), Fraction(0))
        if gpus <= budget:
            changed = sum(
                choice.now is not None and point != choice.now
                for point, choice in zip(combination, problem.values(), strict=True)
            )
            found.append((min(point.rate for point in combination), gpus, changed))
    return found


@given(problems())
def test_throughput_is_the_best_of_all_combinations(case: tuple[dict[Stage, Choice], Fraction]) -> None:
    problem, budget = case
    every, best = everything(problem, budget), allocate(problem, budget)
    if not every:
        assert isinstance(best, Infeasible)
        assert best.constraint
        return
    assert isinstance(best, Optimum)
    assert best.throughput >= max(every)[0] * (1 - 1e-9)
    assert best.gpus <= budget
    assert all(point in problem[stage].points for stage, point in best.points.items())


@a_tenth
@given(problems())
def test_no_combination_as_good_changes_fewer_stages(case: tuple[dict[Stage, Choice], Fraction]) -> None:
    problem, budget = case
    every, best = everything(problem, budget), allocate(problem, budget)
    if isinstance(best, Optimum):
        level = max(every)[0]
        fewest = min(changed for throughput, _, changed in every if throughput >= level * (1 - 1e-9))
        changed = sum((now := problem[stage].now) is not None and point != now for stage, point in best.points.items())
        assert changed == fewest


@a_tenth
@given(problems())
def test_efficiency_is_the_cheapest_of_all_good_combinations(case: tuple[dict[Stage, Choice], Fraction]) -> None:
    problem, budget = case
    every, best = everything(problem, budget), allocate(problem, budget, efficient=True)
    if isinstance(best, Optimum):
        level = EFFICIENT * max(every)[0]
        assert best.throughput >= level * (1 - 1e-9)
        assert best.gpus == min(gpus for throughput, gpus, _ in every if throughput >= level * (1 - 1e-12))


@a_tenth
@given(problems())
def test_allocating_again_from_the_optimum_changes_nothing(case: tuple[dict[Stage, Choice], Fraction]) -> None:
    problem, budget = case
    for efficient in (False, True):
        best = allocate(problem, budget, efficient=efficient)
        if isinstance(best, Optimum):
            after = {stage: Choice(choice.points, best.points[stage]) for stage, choice in problem.items()}
            assert allocate(after, budget, efficient=efficient) == best
