"""Verdicts that are not there yet, rollbacks that must not cascade, trials that users undo."""

from __future__ import annotations

import pytest

from steelyard.api import Origin, RevisionPhase, Stage, Verdict
from steelyard.balance import balance
from steelyard.balance.types import Action
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, a_view, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_balance import SLOW_TOOLS, judged
from tests.unit.balance.test_gate import a_trial, time
from tests.unit.balance.test_verdict import a_move, measuring
from tests.unit.balance.test_verdict import judged as after_a_tick

WIDE = START.replace(Stage.ENVIRONMENT, {"default": 2})


def test_an_unclear_result_is_measured_again_three_times_and_then_holds() -> None:
    """argoproj/argo-rollouts#3873, argoproj/argo-rollouts#1905: an inconclusive analysis was promoted."""
    for windows in range(3):
        sheet = steady(trajectories=2, environments=2, batch=4)
        status = after_a_tick(a_move(RevisionPhase.SETTLING, throughput=2.0, **measuring(110, windows=windows)), sheet)
        assert status.status.verdict is None
        assert status.status.windows == windows + 1
    final = after_a_tick(a_move(RevisionPhase.SETTLING, throughput=2.0, **measuring(110, windows=3)), sheet)
    assert final.status.verdict is Verdict.INCONCLUSIVE
    assert not final.roll_back


def test_an_inconclusive_move_is_neither_promoted_nor_repeated_at_once() -> None:
    """argoproj/argo-rollouts#3873: inconclusive holds; the stage rests two cooldowns."""
    unclear = a_trial(2, "Inconclusive", NOW - 15, START, WIDE)
    unclear = unclear.model_copy(update={"status": unclear.status.model_copy(update={"phase": RevisionPhase.JUDGED})})
    view = a_view(demo_job(), (judged(), unclear), WIDE)
    plan = balance(view, steady(**{**SLOW_TOOLS, "environments": 2}).rates(), NOW)
    assert plan.active is not None
    assert plan.active.spec.allocation.after == WIDE
    assert plan.revision is None


@pytest.mark.parametrize("slower", [0.1, 0.5, 0.9])
def test_a_rollback_is_never_rolled_back_however_slow_it_is(slower: float) -> None:
    """A rollback must not cascade: the way back is measured and told, and stays."""
    back = a_move(RevisionPhase.SETTLING, throughput=2 / slower, origin=Origin.ROLLBACK, trial=False, **measuring())
    got = after_a_tick(back)
    assert not got.roll_back
    assert got.status.verdict is Verdict.INCONCLUSIVE
    assert got.status.windows == 0


def test_the_second_failure_in_a_row_goes_back_to_the_last_good_revision_and_stays_there() -> None:
    """A rollback must not cascade into older allocations: both moves started from the same good one."""
    wider, other = START.replace(Stage.ENVIRONMENT, {"default": 3}), START.replace(Stage.SAMPLER, {"whole": 1})
    ledger = (
        judged(),
        a_trial(2, "RolledBack", NOW - 300, START, wider, settling_time=time(NOW - 350)),
        a_revision(3, START, before=wider, origin=Origin.ROLLBACK, phase=RevisionPhase.SUPERSEDED),
        a_trial(4, "RolledBack", NOW - 100, START, other, settling_time=time(NOW - 150)),
        a_revision(
            5,
            START,
            before=other,
            origin=Origin.ROLLBACK,
            phase=RevisionPhase.JUDGED,
            status={"measuring_time": time(NOW - 110)},
        ),
    )
    plan = balance(a_view(demo_job({"scaling.horizonSeconds": 600}), ledger), steady(**SLOW_TOOLS).rates(), NOW)
    assert plan.decision.action is Action.HOLD
    assert plan.decision.kind == "LosingStreak"
    assert "the last 2 moves were all rolled back; the last good allocation (calculator-1) is held for" in (
        plan.decision.reason
    )


@pytest.mark.parametrize("mode", ["Observe", "Fixed", "Dynamic"])
def test_changing_the_mode_moves_nothing_by_itself(mode: str) -> None:
    """Dynamic acts once a window of the present allocation was measured, Fixed where its allocation differs."""
    fixed = {"scaling.fixed": {"sampler": {"whole": 2}}} if mode == "Fixed" else {}
    unmeasured = a_revision(1, START, phase=RevisionPhase.JUDGED, status={"measuring_time": time(NOW - 20)})
    plan = balance(a_view(demo_job({"scaling.mode": mode, **fixed}), (unmeasured,)), steady(**SLOW_TOOLS).rates(), NOW)
    assert plan.revision is None
    assert plan.decision.kind == ("Fixed" if mode == "Fixed" else "NoEvidence")
