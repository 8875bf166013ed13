"""What the ledger teaches: what moves really cost, what failed and for how long it is barred."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api import Allocation, AllocationRevision, Origin, RevisionPhase, Stage
from steelyard.balance.bounds import stage_bounds
from steelyard.balance.gate import veto
from steelyard.balance.lessons import failures_of, transition_cost
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, a_view
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_gate import MOVED, WIDE, a_case, a_trial, time

GROWN = START.replace(Stage.SAMPLER, {"whole": 3})
TWICE = START.replace(Stage.SAMPLER, {"whole": 4})


def cost(
    seconds: float, number: int = 2, before: Allocation = START, after: Allocation = GROWN, error: float = 0.0
) -> AllocationRevision:
    measured = {"transitionCostSeconds": f"{seconds:g}", "transitionCostErrorSeconds": f"{error:g}"}
    return a_trial(number, "Kept", NOW - 9000, before, after, measured=measured)


COSTS: dict[str, tuple[list[AllocationRevision], float, float]] = {
    "nothing is known: 15 s a sampler": ([], 15, 0),
    "one move teaches its cost": ([cost(60)], 60, 0),
    "one that is known as badly as the guess teaches half": ([cost(75, error=30)], 45, 0),
    "one during which the workload jumped teaches next to nothing": ([cost(2067, error=2000)], 15.5, 0),
    "more moves give a mean and its error": ([cost(50, 2), cost(60, 3), cost(70, 4)], 60, 5.8),
    "one slow pull in a row does not frighten": (
        [cost(60, 2), cost(62, 3), cost(900, 4), cost(58, 5), cost(60, 6)],
        61.8,
        1.9,
    ),
    "giving a sampler away is another kind of move": ([cost(60, 2, GROWN, START)], 15, 0),
    "so is an exchange": ([cost(60, 2, WIDE, MOVED)], 15, 0),
    "twice the replicas cost twice as much": ([cost(80, 2, START, TWICE)], 40, 0),
    "a rollback costs what any move costs": (
        [cost(60).model_copy(update={"spec": cost(60).spec.model_copy(update={"origin": Origin.ROLLBACK})})],
        60,
        0,
    ),
}


@pytest.mark.parametrize("case", COSTS)
def test_what_the_next_sampler_will_cost(case: str) -> None:
    known, want, error = COSTS[case]
    expected = transition_cost(known, START, GROWN)
    assert expected.seconds == pytest.approx(want, abs=0.1)
    assert expected.error == pytest.approx(error, abs=0.1)


def test_an_old_move_is_forgotten_after_nine_newer_ones() -> None:
    old, *new = [cost(600, 2), *(cost(30, number) for number in range(3, 12))]
    assert transition_cost([old, *new], START, GROWN).seconds == pytest.approx(30)


def test_a_new_profile_of_the_same_number_is_a_kind_of_its_own() -> None:
    sliced = START.replace(Stage.SAMPLER, {"slice": 2})
    assert transition_cost([cost(60)], START, sliced).seconds == 60  # four replicas change, 15 s each
    assert transition_cost([cost(99, 2, START, sliced)], START, sliced).seconds == pytest.approx(99)


def test_payback_counts_the_error_of_the_cost() -> None:
    """The move would earn 273 s of throughput within the horizon."""
    alike = [cost(seconds, number, WIDE, MOVED) for number, seconds in ((2, 230.0), (3, 250.0))]
    assert veto(a_case(revisions=alike)) is None
    apart = [cost(seconds, number, WIDE, MOVED) for number, seconds in ((2, 90.0), (3, 390.0))]
    objection = veto(a_case(revisions=apart))
    assert objection is not None
    assert objection.kind == "Payback"
    assert "costs 240 s of throughput (error 150 s) and would earn only 273 s" in objection.reason


def test_the_same_exchange_beside_another_environment_is_still_barred() -> None:
    failed = a_trial(2, "RolledBack", NOW - 100)
    wider = MOVED.replace(Stage.ENVIRONMENT, {"default": 5})
    assert failures_of([failed], WIDE, wider) == [failed]
    assert failures_of([failed], WIDE, WIDE.replace(Stage.ENVIRONMENT, {"default": 5})) == []
    further = MOVED.replace(Stage.REWARD_SERVER, {"whole": 3})
    assert failures_of([failed], WIDE, further) == []


def test_a_losing_streak_names_the_revision_that_is_held() -> None:
    good = a_revision(1, START, phase=RevisionPhase.SUPERSEDED)
    ledger = [
        good,
        a_trial(2, "RolledBack", NOW - 300, after=GROWN),
        a_revision(3, START, origin=Origin.ROLLBACK, status={"verdict": "Kept"}),
        a_trial(4, "RolledBack", NOW - 200, after=TWICE),
    ]
    objection = veto(a_case(revisions=ledger))
    assert objection is not None
    assert "the last good allocation (calculator-1) is held for 400 s more" in objection.reason


def test_what_users_try_is_no_losing_streak_of_the_balance() -> None:
    tries = [a_trial(2, "RolledBack", NOW - 300, after=GROWN), a_trial(4, "RolledBack", NOW - 200, after=TWICE)]
    users = [one.model_copy(update={"spec": one.spec.model_copy(update={"origin": Origin.USER})}) for one in tries]
    assert (objection := veto(a_case(revisions=tries))) is not None
    assert objection.kind == "LosingStreak"
    assert veto(a_case(revisions=users)) is None


def unready(at: float, **status: Any) -> AllocationRevision:
    """Two samplers more were asked for and never became ready."""
    return a_trial(2, "RolledBack", at, START, TWICE, **status)


CEILINGS: dict[str, tuple[AllocationRevision, int]] = {
    "as many are not asked for again": (unready(NOW - 100), 3),
    "until the bar ends": (unready(NOW - 601), 4),
    "a move that was ready and slow says nothing about room": (
        unready(NOW - 100, settling_time=time(NOW - 200)),
        4,
    ),
}


@pytest.mark.parametrize("case", CEILINGS)
def test_replicas_that_never_got_ready(case: str) -> None:
    """ray-project/kuberay#4846: what a quota or the nodes refused is not asked for again and again."""
    failed, want = CEILINGS[case]
    job = demo_job({"stages.sampler.replicas": {"min": 1, "max": 9}, "budget.gpus": 12})
    assert stage_bounds(a_view(job, (failed,)), START, NOW)[Stage.SAMPLER].high == want
