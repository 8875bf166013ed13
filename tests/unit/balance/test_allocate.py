"""The exact allocator on cases small enough to check by eye; `tests/property` holds it against brute force."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.api import Stage
from steelyard.balance.allocate import Infeasible, Optimum, allocate
from steelyard.balance.offers import Choice, Point, Resource, Run
from steelyard.balance.stairs import staircase
from tests.unit.balance.problems import Problem, everything, problems

SAMPLER, REWARD, TRAINER = Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER


def run(rate: float, most: int, gpus: float = 1, profile: str = "whole", least: int = 1) -> Run:
    """`least`..`most` replicas of a profile, each adding `rate`."""
    return Run(profile, least, (round(2 * gpus),), rate * np.arange(least, most + 1, dtype=np.float64))


def choice(now: int, rate: float, most: int) -> Choice:
    mine = run(rate, most)
    return Choice((mine,), Point((("whole", now),), (2 * now,), rate * now))


def gpus(amount: float) -> list[Resource]:
    """A budget in halves of a GPU."""
    return [Resource("GPUs", round(2 * amount), 2)]


def solve(budget: float, *, efficient: bool = False, **stages: Choice) -> dict[str, int]:
    named = {Stage.of_field(field): of for field, of in stages.items()}
    best = allocate(named, gpus(budget), efficient=efficient)
    assert isinstance(best, Optimum), best
    return {stage.field: sum(n for _, n in point.counts) for stage, point in best.points.items()}


def test_a_gpu_moves_from_the_stage_with_too_much_to_the_one_with_too_little() -> None:
    got = solve(4, sampler=choice(2, 10, 3), rewardServer=choice(1, 3, 3), trainer=choice(1, 9, 1))
    assert got == {"sampler": 1, "rewardServer": 2, "trainer": 1}


def test_nothing_moves_when_nothing_is_gained() -> None:
    got = solve(4, sampler=choice(2, 10, 3), rewardServer=choice(1, 3, 3), trainer=choice(1, 2, 1))
    assert got == {"sampler": 2, "rewardServer": 1, "trainer": 1}


def test_throughput_keeps_spare_gpus_where_they_are() -> None:
    """Two samplers would do, three run; the judge needs one more and one GPU is free: nobody is shrunk."""
    got = solve(6, sampler=choice(3, 5, 3), rewardServer=choice(1, 3, 3), trainer=choice(1, 6, 1))
    assert got == {"sampler": 3, "rewardServer": 2, "trainer": 1}


def test_a_stage_is_shrunk_no_further_than_needed() -> None:
    got = solve(7, sampler=choice(5, 6, 5), rewardServer=choice(1, 3, 2), trainer=choice(1, 6, 1))
    assert got == {"sampler": 4, "rewardServer": 2, "trainer": 1}


def test_efficiency_frees_what_is_not_needed() -> None:
    got = solve(6, sampler=choice(3, 5, 3), rewardServer=choice(2, 3, 3), trainer=choice(1, 6, 1), efficient=True)
    assert got == {"sampler": 2, "rewardServer": 2, "trainer": 1}


def test_efficiency_accepts_three_percent_less_for_fewer_gpus() -> None:
    got = solve(9, sampler=choice(2, 3.4, 3), rewardServer=choice(1, 7, 1), trainer=choice(1, 9, 1), efficient=True)
    assert got["sampler"] == 2  # 6.8 of 7


def test_a_concave_curve_is_no_condition() -> None:
    """Two ranks are no better than one, four are: the optimum jumps over the useless steps."""
    ranks = Run("whole", 1, (2,), np.array([1.0, 1.0, 0.5, 3.0]))
    best = allocate({SAMPLER: choice(1, 3, 2), TRAINER: Choice((ranks,))}, gpus(5))
    assert isinstance(best, Optimum)
    assert best.throughput == 3.0
    assert best.points[TRAINER].counts == (("whole", 4),)


def test_the_cheaper_profile_wins_when_both_carry_enough() -> None:
    mine = (run(4, 2), run(2, 4, gpus=0.5, profile="slice"))
    best = allocate({REWARD: Choice(mine), TRAINER: Choice((run(2, 1),))}, gpus(4), efficient=True)
    assert isinstance(best, Optimum)
    assert best.points[REWARD].counts == (("slice", 1),)


def test_a_profile_that_another_beats_in_price_and_rate_is_never_chosen() -> None:
    mine = (run(1, 4, gpus=2, profile="beaten"), run(2, 4, gpus=1, profile="better"))
    best = allocate({REWARD: Choice(mine), TRAINER: Choice((run(6, 1),))}, gpus(5))
    assert isinstance(best, Optimum)
    assert best.points[REWARD].counts == (("better", 4),)
    assert best.throughput == 6.0


def test_a_quota_of_cpu_decides_between_profiles() -> None:
    """The slice is cheaper in GPUs, but two of them need six CPUs and only four are left."""
    resources = [Resource("GPUs", 8), Resource("CPUs", 5)]
    slices = Run("slice", 1, (1, 3), np.array([1.0, 2.0, 3.0]))
    whole = Run("whole", 1, (2, 2), np.array([2.0, 4.0]))
    best = allocate(
        {REWARD: Choice((slices, whole)), TRAINER: Choice((Run("whole", 1, (1, 1), np.array([3.0])),))}, resources
    )
    assert isinstance(best, Optimum)
    assert best.points[REWARD].counts == (("whole", 2),)
    assert best.taken(1) == 5


def test_numbers_that_are_no_rate_carry_nothing() -> None:
    curve = Run("whole", 1, (1,), np.array([nan, -3.0, inf, 2.0]))
    best = allocate({REWARD: Choice((curve,)), TRAINER: Choice((run(4, 2),))}, gpus(4))
    assert isinstance(best, Optimum)
    assert best.throughput == 8.0
    assert best.points[REWARD].counts == (("whole", 3),)


CPUS = [Resource("GPUs", 8), Resource("CPUs", 3)]
TWO_CPUS = Choice((Run("whole", 1, (1, 2), np.array([1.0])),))
INFEASIBLE: dict[str, tuple[dict[Stage, Choice], list[Resource], str]] = {
    "the budget": (
        {SAMPLER: Choice((run(1, 3, least=2),)), TRAINER: choice(1, 1, 1)},
        gpus(1.5),
        "takes 3 GPUs of a budget of 1.5, 1.5 too many; sampler takes at least 2",
    ),
    "no budget at all": ({TRAINER: choice(1, 1, 1)}, gpus(0), "takes 1 GPUs of a budget of 0, 1 too many"),
    "a stage that may have no replica": (
        {SAMPLER: Choice(()), TRAINER: choice(1, 1, 1)},
        gpus(9),
        "sampler has no allowed number of replicas",
    ),
    "a stage that may not move": (
        {SAMPLER: Choice((), Point((("whole", 9),), (18,), 1.0)), TRAINER: choice(1, 1, 1)},
        gpus(8),
        "takes 10 GPUs of a budget of 8, 2 too many; sampler takes at least 9",
    ),
    "a quota": ({SAMPLER: TWO_CPUS, TRAINER: TWO_CPUS}, CPUS, "takes 4 CPUs of a budget of 3, 1 too many"),
    "budget and quota together": (
        {
            SAMPLER: Choice((Run("dear", 1, (8, 1), np.array([1.0])), Run("hungry", 1, (1, 3), np.array([1.0])))),
            TRAINER: Choice((Run("whole", 1, (1, 1), np.array([1.0])),)),
        },
        CPUS,
        "no mix of the allowed profiles fits GPUs and CPUs together",
    ),
}


@pytest.mark.parametrize("binds", INFEASIBLE)
def test_infeasible_is_a_result_that_names_the_constraint(binds: str) -> None:
    choices, resources, says = INFEASIBLE[binds]
    got = allocate(choices, resources)
    assert isinstance(got, Infeasible)
    assert says in got.constraint


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_resources=2))
def test_no_combination_of_any_small_problem_is_better(problem: Problem) -> None:
    every, best = everything(problem), allocate(problem.choices, problem.resources)
    if isinstance(best, Infeasible):
        assert not every
    else:
        assert best.throughput >= max(outcome.throughput for outcome in every) * (1 - 1e-9)


def test_a_staircase_drops_what_another_point_beats() -> None:
    prices, rates = np.array([1, 2, 3, 3, 2, 1]), np.array([1.0, 2.0, 3.0, 2.5, 0.5, 1.0])
    assert staircase(prices, rates).tolist() == [0, 1, 2]
