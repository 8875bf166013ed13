"""The exact allocator on cases small enough to check by eye; `tests/property` holds it against brute force."""

from __future__ import annotations

from fractions import Fraction

import pytest

from steelyard.api import Stage
from steelyard.balance.allocate import Choice, Infeasible, Optimum, Point, allocate, max_min, staircase

SAMPLER, REWARD, TRAINER = Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER


def points(rate: float, most: int, gpus: str = "1", profile: str = "whole", least: int = 1) -> tuple[Point, ...]:
    """`least`..`most` replicas of a profile, each adding `rate`."""
    return tuple(Point(((profile, n),), n * Fraction(gpus), n * rate) for n in range(least, most + 1))


def choice(now: int, rate: float, most: int, **more: str) -> Choice:
    mine = points(rate, most, **more)  # type: ignore[arg-type]
    return Choice(mine, mine[now - 1])


def solve(budget: float, *, efficient: bool = False, **stages: Choice) -> dict[str, int]:
    named = {Stage.of_field(field): of for field, of in stages.items()}
    best = allocate(named, Fraction(budget), efficient=efficient)
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
    """Two ranks are no better than one, four are: the optimum jumps over the useless step."""
    curve = (Point((("whole", 1),), Fraction(1), 1.0), Point((("whole", 4),), Fraction(4), 3.0))
    useless = Point((("whole", 2),), Fraction(2), 1.0)
    best = allocate(
        {SAMPLER: choice(1, 3, 2), TRAINER: Choice((*curve, useless), curve[0])},
        Fraction(5),
    )
    assert isinstance(best, Optimum)
    assert best.throughput == 3.0
    assert best.points[TRAINER].gpus == 4


def test_the_cheaper_profile_wins_when_both_carry_enough() -> None:
    mine = (*points(4, 2), *points(2, 4, gpus="1/2", profile="slice"))
    best = max_min({REWARD: staircase(mine), TRAINER: staircase(points(2, 1))}, Fraction(4))
    assert isinstance(best, Optimum)
    assert best.points[REWARD].counts == (("slice", 1),)


def test_a_ceiling_makes_higher_rates_worthless() -> None:
    best = max_min({REWARD: staircase(points(2, 4))}, Fraction(4), ceiling=3.0)
    assert isinstance(best, Optimum)
    assert best.throughput == 3.0
    assert best.points[REWARD].gpus == 2


def test_a_staircase_drops_what_another_point_beats() -> None:
    stairs = staircase([*points(1, 3), Point((("odd", 1),), Fraction(3), 2.5), Point((("slow", 1),), Fraction(2), 0.5)])
    assert [(float(point.gpus), point.rate) for point in stairs] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("choices", "budget", "says"),
    [
        ({SAMPLER: choice(1, 1, 1), TRAINER: choice(1, 1, 1)}, 1, "takes 2 GPUs of a budget of 1"),
        ({SAMPLER: Choice(()), TRAINER: choice(1, 1, 1)}, 9, "sampler has no allowed number of replicas"),
    ],
)
def test_infeasible_is_a_result_that_names_the_constraint(choices: dict[Stage, Choice], budget: int, says: str) -> None:
    got = allocate(choices, Fraction(budget))
    assert isinstance(got, Infeasible)
    assert says in got.constraint
