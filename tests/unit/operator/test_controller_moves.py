"""Moves of a job's capacity: recorded first, made once, within the budget, whenever the operator is killed."""

from __future__ import annotations

import pytest

from steelyard.api import Allocation, Origin, Stage
from tests.builders import a_revision
from tests.fakes import Killed
from tests.unit.operator.operating import FIXED, KEY, RUNNING, Operated, fixed

MOVES = {
    "more environments": fixed(environment={"default": 3}),
    "fewer samplers, more judges": fixed(sampler={"whole": 1}, rewardServer={"whole": 2}),
    "another profile": fixed(sampler={"slice": 2}),
    "another profile of the judge and more environments": fixed(rewardServer={"slice": 2}, environment={"default": 4}),
}


@pytest.mark.parametrize("move", MOVES)
async def test_a_move_ends_within_its_budget_though_pods_drain(move: str) -> None:
    operated = Operated({**FIXED, "budget.gpus": 4})
    await operated.settle()
    operated.cluster.drains = True
    operated.change_spec(MOVES[move])

    await operated.settle()
    while operated.cluster.let_go():
        await operated.settle()

    want = Allocation.model_validate(MOVES[move]["scaling"]["fixed"])
    replicas = operated.cluster.replicas()
    for stage, profile, n in want.entries():
        name = "calculator-environment" if stage is Stage.ENVIRONMENT else f"calculator-{stage}-{profile}"
        assert replicas[name] == n
    assert max(operated.cluster.gpus) <= 4


async def test_an_operator_killed_at_any_write_finishes_the_same_move_once() -> None:
    """Ledger first: the second operator finds the record and does the rest of it."""
    running = Operated(FIXED)
    await running.settle()
    for writes in range(40):
        operated = running.copy()
        await operated.tick()
        operated.change_spec(fixed(sampler={"slice": 2}))
        operated.cluster.dies_after = writes
        try:
            await operated.settle()
            died = False
        except Killed:
            died = True
        operated.restart()
        await operated.settle()

        assert operated.cluster.names("AllocationRevision") == ["calculator-1", "calculator-2"]
        assert operated.cluster.replicas() == {**RUNNING, "calculator-sampler-whole": 0, "calculator-sampler-slice": 2}
        if not died:
            assert writes > 5
            return
    raise AssertionError("the move takes more writes than expected")


async def test_a_users_revision_is_applied_and_held() -> None:
    operated = Operated({"scaling.mode": "Dynamic"})
    await operated.settle()
    start = operated.job._cluster.view(KEY)
    assert start is not None
    after = start.revisions[0].spec.allocation.after.replace(Stage.SAMPLER, {"whole": 3})
    mine = a_revision(2, after, before=start.revisions[0].spec.allocation.after, origin=Origin.USER, reason="by hand")
    operated.cluster.create(mine.to_dict())

    await operated.settle()

    assert operated.cluster.replicas()["calculator-sampler-whole"] == 3
    assert operated.status["activeRevision"] == "calculator-2"


async def test_what_the_ledger_holds_already_wins_over_what_this_operator_decided(operated: Operated) -> None:
    """The record of an earlier operator whose event was lost: its number is taken, so its move is made."""
    start = operated.cluster.get("AllocationRevision", "calculator-1")["spec"]["allocation"]["after"]
    theirs = a_revision(2, Allocation.model_validate({**start, "sampler": {"whole": 3}})).to_dict()
    theirs["metadata"] |= {"uid": "theirs", "resourceVersion": "1", "namespace": "default"}
    operated.cluster.objects["AllocationRevision", "default", "calculator-2"] = theirs

    operated.change_spec(fixed(sampler={"whole": 1}))
    await operated.tick()

    assert operated.cluster.replicas()["calculator-sampler-whole"] == 3
