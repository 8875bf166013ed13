"""The allocator against brute force over every combination, and its promises on any input."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from hypothesis import given, settings

from steelyard.balance.allocate import EFFICIENT, Infeasible, Optimum, allocate
from steelyard.balance.offers import Choice
from tests.property.effort import LEAST, THOROUGH, costly
from tests.unit.balance.problems import NONSENSE, RATES, Problem, changes, everything, fits, points, problems


@settings(max_examples=5_000 if THOROUGH else LEAST)
@given(problems())
def test_throughput_is_the_best_of_all_combinations_with_the_fewest_changes(problem: Problem) -> None:
    every, best = everything(problem), allocate(problem.choices, problem.resources)
    if isinstance(best, Infeasible):
        assert not every
        assert best.constraint
        return
    most = max(outcome.throughput for outcome in every)
    assert best.throughput >= most * (1 - 1e-9)
    fewest = min(outcome.changed for outcome in every if outcome.throughput >= most * (1 - 1e-9))
    assert changes(problem, tuple(best.points.values())) == fewest


@costly
@given(problems())
def test_efficiency_is_the_cheapest_of_all_good_combinations_with_the_fewest_changes(problem: Problem) -> None:
    every, best = everything(problem), allocate(problem.choices, problem.resources, efficient=True)
    if isinstance(best, Infeasible):
        assert not every
        return
    level = EFFICIENT * max(outcome.throughput for outcome in every) * (1 - 1e-9)
    good = [outcome for outcome in every if outcome.throughput >= level]
    assert best.throughput >= level
    assert (best.taken(0), changes(problem, tuple(best.points.values()))) == min(
        (outcome.gpus, outcome.changed) for outcome in good
    )


@costly
@given(problems())
def test_what_is_allocated_is_allowed_and_fits(problem: Problem) -> None:
    for efficient in (False, True):
        best = allocate(problem.choices, problem.resources, efficient=efficient)
        if isinstance(best, Optimum):
            assert fits(problem, tuple(best.points.values()))
            assert all(point in list(points(problem.choices[stage])) for stage, point in best.points.items())


@costly
@given(problems())
def test_allocating_again_from_the_optimum_changes_nothing(problem: Problem) -> None:
    for efficient in (False, True):
        best = allocate(problem.choices, problem.resources, efficient=efficient)
        if isinstance(best, Optimum):
            settled = {stage: Choice(choice.runs, best.points[stage]) for stage, choice in problem.choices.items()}
            assert allocate(settled, problem.resources, efficient=efficient) == best


@costly
@given(problems())
def test_more_budget_never_means_less_throughput(problem: Problem) -> None:
    more = [replace(resource, budget=resource.budget + 3) for resource in problem.resources]
    best, better = allocate(problem.choices, problem.resources), allocate(problem.choices, more)
    if isinstance(best, Optimum):
        assert isinstance(better, Optimum)
        assert better.throughput >= best.throughput * (1 - 1e-9)


@costly
@given(problems(rates=RATES | NONSENSE))
def test_numbers_that_make_no_sense_get_an_answer(problem: Problem) -> None:
    for efficient in (False, True):
        best = allocate(problem.choices, problem.resources, efficient=efficient)
        if isinstance(best, Infeasible):
            assert best.constraint
            assert not everything(problem)
        else:
            assert fits(problem, tuple(best.points.values()))
            assert best.throughput >= 0
            assert isfinite(best.throughput)
