"""One tick: which rule decides, what is recorded, what is closed, and why nothing happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steelyard.api import Allocation, AllocationRevision, Origin, RevisionPhase, Stage, Verdict
from steelyard.balance import balance, signals
from steelyard.balance.types import Action, MetricsProblem, MetricsUnavailable, Plan, Rates, Seen
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, Sheet, a_view, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_gate import a_trial, time

SLOW_TOOLS: dict[str, Any] = {"trajectories": 2.0, "tool_seconds": 3.2, "token_seconds": 0.5, "judge_seconds": 0.2}
"""7.4 of 8 slots are taken: episodes hold the pipeline back."""


def judged(number: int = 1, after: Allocation = START, **more: Any) -> AllocationRevision:
    status = {"measuring_time": time(NOW - 110), "judged_time": time(NOW - 60), **more.pop("status", {})}
    return a_revision(number, after, phase=RevisionPhase.JUDGED, status=status, **more)


def tick(
    changes: dict[str, Any] | None = None,
    revisions: tuple[AllocationRevision, ...] | None = None,
    sheet: Sheet | None = None,
    **view: Any,
) -> Plan:
    revisions = (judged(),) if revisions is None else revisions
    seen = a_view(demo_job(changes), revisions, **view)
    return balance(seen, (sheet or steady(**SLOW_TOOLS)).rates(), NOW)


def test_a_new_job_records_its_first_revision_before_anything_was_measured() -> None:
    plan = balance(Seen(demo_job()), Rates(), NOW)
    assert plan.decision.action is Action.INITIAL
    assert plan.revision is not None
    assert plan.revision is plan.active
    assert plan.revision.metadata.name == "calculator-1"
    assert plan.revision.spec.allocation.after == START
    assert plan.revision.spec.reason == "initial allocation"


def test_the_first_revision_of_a_fixed_job_is_its_fixed_allocation() -> None:
    fixed = {"sampler": {"whole": 1}, "rewardServer": {"whole": 2}}
    plan = balance(Seen(demo_job({"scaling.mode": "Fixed", "scaling.fixed": fixed})), Rates(), NOW)
    assert plan.revision is not None
    assert plan.revision.spec.allocation.after == START.replace(Stage.SAMPLER, {"whole": 1}).replace(
        Stage.REWARD_SERVER, {"whole": 2}
    )


def test_the_bottleneck_gets_capacity_and_the_ledger_gets_what_it_was_decided_from() -> None:
    plan = tick()
    assert plan.decision.action is Action.MOVE
    assert plan.revision is not None
    assert plan.revision.spec.number == 2
    assert plan.revision.spec.parent == "calculator-1"
    assert plan.revision.spec.allocation.after == START.replace(Stage.ENVIRONMENT, {"default": 2})
    assert plan.revision.spec.predicted is not None
    assert plan.revision.spec.inputs["throughput"] == "2"
    assert plan.decision.reason == plan.revision.spec.reason
    assert plan.decision.reason.startswith("environment 1 -> 2: environment binds at 2 trajectories/s")
    assert plan.updates["calculator-1"].phase is RevisionPhase.SUPERSEDED


def test_the_bottleneck_is_named_with_its_evidence() -> None:
    plan = tick()
    assert plan.bottleneck is not None
    assert plan.bottleneck.stage is Stage.ENVIRONMENT
    assert "environment works 92 % of its slots' time (80 % in tools, 13 % waiting for samplers)" in (
        plan.bottleneck.evidence
    )
    assert "trainer has no input 75 %" in plan.bottleneck.evidence


def test_status_figures_are_none_without_data_and_0_when_idle() -> None:
    sheet = steady(**SLOW_TOOLS).without(signals.STAGE_SECONDS, "reward-server-whole-0")
    plan = tick(sheet=sheet)
    assert plan.stages[Stage.REWARD_SERVER].throughput is None
    assert plan.stages[Stage.REWARD_SERVER].utilization is None
    assert plan.stages[Stage.ENVIRONMENT].throughput == pytest.approx(2)
    assert plan.throughput == pytest.approx(2)


OLD = a_trial(2, "Kept", NOW - 5, START, START.replace(Stage.ENVIRONMENT, {"default": 2}))
HELD = a_revision(2, START, phase=RevisionPhase.JUDGED, origin=Origin.USER, expires_at=time(NOW + 90))
HOLDS: dict[str, tuple[dict[str, Any], tuple[AllocationRevision, ...], str, str]] = {
    "a suspended job": ({"suspend": True}, (judged(),), "Suspended", "the job is suspended"),
    "a user's hold": ({}, (judged(), HELD), "Held", "calculator-2 is held by its user for 90 s more"),
    "a pin that is obeyed": ({"scaling.pin": "calculator-1"}, (judged(),), "Pinned", "pinned to calculator-1 holds"),
    "a pin to nowhere": ({"scaling.pin": "x"}, (judged(),), "Pinned", "the pinned revision x does not exist"),
    "a fixed allocation that is in force": (
        {"scaling.mode": "Fixed", "scaling.fixed": {"sampler": {"whole": 2}}},
        (judged(),),
        "Fixed",
        "mode Fixed holds",
    ),
    "an open move": (
        {},
        (a_revision(1, START, phase=RevisionPhase.APPLYING, status={"applied_time": time(NOW - 5)}),),
        "OpenMove",
        "calculator-1 is open: the pipeline is settling",
    ),
    "too few steps under this allocation": (
        {},
        (judged(status={"measuring_time": time(NOW - 40)}),),
        "NoEvidence",
        "only 1 of 3 training steps were measured under calculator-1",
    ),
}


@pytest.mark.parametrize("case", HOLDS)
def test_nothing_moves_and_the_reason_is_told(case: str) -> None:
    changes, revisions, kind, says = HOLDS[case]
    plan = tick(changes, revisions)
    assert (plan.decision.action, plan.decision.kind) == (Action.HOLD, kind)
    assert plan.decision.reason.startswith("no change because")
    assert says in plan.decision.reason
    assert plan.revision is None


def test_a_cooldown_is_the_reason_when_it_is_what_hinders() -> None:
    rested = judged(2, status={"verdict": "Kept"}, before=START.replace(Stage.ENVIRONMENT, {"default": 2}))
    rested = rested.model_copy(
        update={"metadata": rested.metadata.model_copy(update={"creation_timestamp": time(NOW - 4)})}
    )
    plan = tick(revisions=(judged(1, status={}), rested))
    assert plan.decision.kind == "Cooldown"
    assert "environment was moved by calculator-2 and rests for 6 s more" in plan.decision.reason


def test_metrics_that_are_unreachable_hold_and_set_the_condition() -> None:
    problem = MetricsUnavailable(MetricsProblem.UNREACHABLE, "Prometheus did not answer: ConnectError")
    plan = balance(a_view(revisions=(judged(),)), Rates(unavailable=problem), NOW)
    assert plan.decision.kind == "MetricsUnavailable"
    assert (plan.metrics.status, plan.metrics.reason) == (False, "Unreachable")
    assert plan.active is not None
    assert plan.active.spec.allocation.after == START


def test_an_unreachable_source_is_the_reason_also_while_a_move_is_open() -> None:
    open_ = a_revision(1, START, phase=RevisionPhase.SETTLING, status={"settling_time": time(NOW - 50)})
    problem = MetricsUnavailable(MetricsProblem.UNREACHABLE, "Prometheus did not answer: ConnectError")
    plan = balance(a_view(revisions=(open_,)), Rates(unavailable=problem), NOW)
    assert plan.decision.kind == "MetricsUnavailable"
    assert plan.updates == {}


def test_partial_metrics_hold_and_name_what_is_missing() -> None:
    """kedacore/keda#3064, kubernetes/kubernetes#105187: never scale on a broken metric."""
    plan = tick(sheet=steady(**SLOW_TOOLS).without(signals.STAGE_SECONDS, "sampler-whole-1"))
    assert plan.decision.kind == "MetricsIncomplete"
    assert "sampler has no fresh metrics from 1 of 2 pods (sampler-whole-1)" in plan.decision.reason
    assert (plan.metrics.status, plan.metrics.reason) == (False, "Partial")


def test_an_autoscalers_stage_is_left_alone() -> None:
    """kedacore/keda#3087: two controllers on one target."""
    plan = tick(held={Stage.ENVIRONMENT: "a HorizontalPodAutoscaler owns the replicas of calculator-environment"})
    assert plan.revision is None
    assert "HorizontalPodAutoscaler" in plan.decision.reason


def test_resume_restores_the_allocation_without_metrics() -> None:
    """kedacore/keda#5009."""
    plan = balance(a_view(revisions=(judged(),)), Rates(), NOW)
    assert plan.active is not None
    assert plan.active.spec.allocation.after == START


DEMANDS: dict[str, tuple[dict[str, Any], str, Allocation]] = {
    "a new fixed allocation": (
        {"scaling.mode": "Fixed", "scaling.fixed": {"sampler": {"whole": 1}}},
        "mode Fixed: sampler 2 -> 1",
        START.replace(Stage.SAMPLER, {"whole": 1}),
    ),
    "a raised minimum": (
        {"stages.environment.replicas": {"min": 3, "max": 4}},
        "no longer allow the allocation: environment 1 -> 3",
        START.replace(Stage.ENVIRONMENT, {"default": 3}),
    ),
    "a changed profile": (
        {"scaling.mode": "Fixed", "scaling.fixed": {"rewardServer": {"slice": 2}}},
        "mode Fixed: reward-server (slice) 0 -> 2, reward-server (whole) 1 -> 0",
        START.replace(Stage.REWARD_SERVER, {"slice": 2}),
    ),
}


@pytest.mark.parametrize("case", DEMANDS)
@pytest.mark.parametrize("phase", [RevisionPhase.JUDGED, RevisionPhase.APPLYING])
def test_what_the_spec_demands_is_done_at_once_whatever_is_measured_or_open(case: str, phase: RevisionPhase) -> None:
    changes, says, want = DEMANDS[case]
    current = a_revision(1, START, phase=phase, status={"applied_time": time(NOW - 5)})
    plan = balance(a_view(demo_job(changes), (current,)), Rates(), NOW)
    assert plan.revision is not None
    assert plan.revision.spec.allocation.after == want
    assert says in plan.revision.spec.reason
    assert plan.revision.spec.predicted is None  # no trial: the balance will not take it back


def test_a_pin_returns_to_an_older_revision() -> None:
    second = judged(2, START.replace(Stage.ENVIRONMENT, {"default": 2}), before=START)
    first = judged(1).model_copy(update={"status": judged(1).status.model_copy(update={"phase": "Superseded"})})
    plan = tick({"scaling.pin": "calculator-1"}, (first, second))
    assert plan.revision is not None
    assert plan.revision.spec.allocation.after == START
    assert plan.revision.spec.number == 3


def test_every_older_revision_is_closed() -> None:
    plan = tick(revisions=(judged(1), judged(2, before=START)))
    assert plan.updates["calculator-1"].phase is RevisionPhase.SUPERSEDED


def test_a_rollback_that_was_recorded_without_its_verdict_gets_it() -> None:
    failed = a_revision(2, START.replace(Stage.ENVIRONMENT, {"default": 2}), phase=RevisionPhase.SETTLING)
    back = a_revision(3, START, origin=Origin.ROLLBACK, reason="calculator-2 is taken back: slow")
    plan = tick(revisions=(judged(1), failed, back))
    assert plan.updates["calculator-2"].verdict is Verdict.ROLLED_BACK
    assert plan.updates["calculator-2"].evidence == "calculator-2 is taken back: slow"


def test_a_verdict_that_was_stored_without_its_rollback_is_followed_by_it() -> None:
    grown = START.replace(Stage.ENVIRONMENT, {"default": 2})
    failed = a_revision(
        2, grown, before=START, phase=RevisionPhase.SUPERSEDED, status={"verdict": "RolledBack", "evidence": "slow"}
    )
    first = judged(1).model_copy(update={"status": judged(1).status.model_copy(update={"phase": "Superseded"})})
    plan = tick(revisions=(first, failed), allocation=grown)
    assert plan.decision.action is Action.ROLLBACK
    assert plan.revision is not None
    assert plan.revision.spec.allocation.after == START
    assert plan.revision.spec.number == 3


def test_the_next_read_reaches_back_over_the_window_and_an_open_move() -> None:
    assert tick().window_seconds == pytest.approx(1.5 * 6 * 16)
    open_ = a_revision(1, START, phase=RevisionPhase.SETTLING, status={"applied_time": time(NOW - 500)})
    plan = tick(revisions=(open_,))
    assert plan.window_seconds == pytest.approx(500 + plan.wake, abs=2)


@pytest.mark.parametrize(("measured_for", "decides"), [(800, False), (5000, True)])
def test_steps_too_long_for_any_window_are_decided_on_as_they_are(measured_for: float, decides: bool) -> None:
    """900 scrapes hold one whole step where three are asked for: they will never hold more."""
    rates = replace(steady(**SLOW_TOOLS, batch=100).rates(), window_seconds=900)
    revision = judged(status={"measuring_time": time(NOW - measured_for)})
    plan = balance(a_view(demo_job(), (revision,)), rates, NOW)
    assert (plan.decision.kind != "NoEvidence") is decides


def test_no_window_is_longer_than_900_scrapes() -> None:
    open_ = a_revision(1, START, phase=RevisionPhase.SETTLING, status={"applied_time": time(NOW - 5000)})
    assert tick(revisions=(open_,)).window_seconds == 900


def test_no_gain_anywhere_is_said_honestly() -> None:
    """The trainer binds, has one replica and may have no more."""
    plan = tick(sheet=steady(trajectories=2, train_seconds=15.5, judge_seconds=0.1))
    assert plan.decision.kind == "Balanced"
    assert "trainer binds at 2.1 trajectories/s, and no allocation within the spec would gain more than 0 %" in (
        plan.decision.reason
    )
    assert plan.balanced.status


def test_the_wake_is_the_interval() -> None:
    assert tick({"scaling.intervalSeconds": 7}).wake == 7


def test_reasons_fit_what_the_api_admits() -> None:
    problem = MetricsUnavailable(MetricsProblem.BAD_RESPONSE, "x" * 5000)
    plan = balance(a_view(revisions=(judged(),)), Rates(unavailable=problem), NOW)
    assert len(plan.decision.reason) <= 1024


def test_the_same_tick_gives_the_same_plan() -> None:
    assert tick() == tick()
