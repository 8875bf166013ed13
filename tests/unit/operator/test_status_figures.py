"""The rest of the status: figures, decisions, events, victims, and when it is worth a write."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from steelyard.api import JobStatus, Stage
from steelyard.balance import signals
from steelyard.balance.types import Action, Advice, Decision, Finding, Rates, Remedy, Series, StageEstimate, Symptom
from steelyard.status import status, worth_writing
from steelyard.status.figures import figure, moment
from steelyard.status.narration import of_transitions
from steelyard.status.victims import deletion_costs
from tests.unit.operator.ticks import NO_IMAGE, NOW, a_pod, a_tick, broken, working


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, None), (0.0, "0"), (1234.5, "1200"), (0.012345, "0.012"), (1.0, "1"), (99.6, "100"), (2.35e7, "2.4e+07")],
)
def test_a_figure_has_two_significant_digits(value: float | None, want: str | None) -> None:
    assert figure(value) == want


def test_gpus_in_use_are_those_of_bound_pods_that_have_not_ended_terminating_ones_included() -> None:
    pods = [
        a_pod("a", Stage.SAMPLER),
        a_pod("b", Stage.SAMPLER, "slice", gpus=Fraction(1, 2), terminating=True),
        a_pod("c", Stage.TRAINER, ended=True),
        a_pod("d", Stage.TRAINER, bound=False),
    ]

    gpus = status(a_tick(pods=pods)).gpus
    assert gpus is not None
    assert (gpus.budget, gpus.used) == ("8", "1.5")


def test_the_last_five_decisions_are_kept_and_the_same_one_again_is_no_new_line() -> None:
    written = JobStatus()
    for rule in ("A", "B", "B", "C", "D", "E", "F"):
        tick = a_tick(before=written)
        decision = Decision(Action.HOLD, rule, "because")
        written = status(replace(tick, plan=replace(tick.plan, decision=decision)))

    assert [line.kind for line in written.last_decisions] == ["F", "E", "D", "C", "B"]


def test_the_same_decision_with_other_figures_keeps_its_time() -> None:
    first = status(a_tick())
    later = replace(a_tick(before=first), now=NOW + 300)
    later = replace(
        later, plan=replace(later.plan, decision=Decision(Action.HOLD, "DeadBand", "no change because of 4 %"))
    )

    (line,) = status(later).last_decisions
    assert (line.time, line.reason) == (moment(NOW), "no change because of 4 %")


def test_numbers_alone_are_written_at_most_once_a_minute() -> None:
    slow = status(a_tick(plan={"throughput": 1.0, "stages": {Stage.SAMPLER: StageEstimate(utilization=0.5)}}))
    fast = status(a_tick(plan={"throughput": 2.0, "stages": {Stage.SAMPLER: StageEstimate(utilization=0.9)}}))
    other = status(a_tick(pods=working(without="trainer-0"), plan={"throughput": 1.0}))

    assert not worth_writing(slow, slow, since_last_numbers=1e9)
    assert not worth_writing(slow, fast, since_last_numbers=59)
    assert worth_writing(slow, fast, since_last_numbers=60)
    assert worth_writing(slow, other, since_last_numbers=0)


def test_findings_are_told_in_order_and_eight_at_most() -> None:
    found = Finding(
        Symptom.LONG_TAIL, Stage.ENVIRONMENT, "1 of 8 episodes run", "time-outs (docs/symptoms.md#long-tail)"
    )
    everywhere = Finding(Symptom.NO_MISMATCH, None, "e" * 5000, "reward")
    advice = Advice(Remedy.FIX_FIRST, "stragglers")
    told = status(a_tick(plan={"findings": (found, *[everywhere] * 9), "advice": advice}))
    assert len(told.findings) == 8
    assert told.to_dict()["findings"][0] == {
        "symptom": "LongTail",
        "stage": "environment",
        "evidence": "1 of 8 episodes run",
        "lookFirst": "time-outs (docs/symptoms.md#long-tail)",
    }
    assert told.findings[1].stage is None
    assert len(told.findings[1].evidence) == 1024
    assert told.to_dict()["recommendation"] == {"remedy": "FixFirst", "reason": "stragglers"}


def test_findings_that_come_and_go_are_written_at_most_once_a_minute() -> None:
    found = Finding(Symptom.REWARD_QUEUE, Stage.REWARD_SERVER, "9 wait", "batching")
    without, with_ = (
        status(a_tick()),
        status(a_tick(plan={"findings": (found,), "advice": Advice(Remedy.REALLOCATE, "")})),
    )
    assert not worth_writing(without, with_, since_last_numbers=59)
    assert worth_writing(without, with_, since_last_numbers=60)


def series(*samples: tuple[float, float]) -> tuple[Series, ...]:
    return (Series((), samples),)


def test_how_far_the_learning_is() -> None:
    samples = {
        signals.POLICY_VERSION: {"trainer-0": series((NOW - 2, 6.0), (NOW - 1, 7.0))},
        signals.STEP_COUNT: {"trainer-0": series((NOW - 9, 5.0), (NOW - 5, 6.0), (NOW - 1, 6.0))},
        signals.REWARD_COUNT: {"reward-server-0": series((NOW - 9, 100.0), (NOW - 1, 200.0))},
        signals.REWARD_SUM: {"reward-server-0": series((NOW - 9, 10.0), (NOW - 1, 83.4))},
    }
    measured = status(replace(a_tick(), rates=Rates(60.0, samples)))
    assert measured.training is not None
    assert (measured.training.step, measured.training.steps, measured.training.reward) == (7, 200, "0.73")
    assert measured.training.last_step_time == moment(NOW - 5)

    unmeasured = status(a_tick(before=measured))
    assert unmeasured.training == measured.training, "a trainer that restarts has not unlearnt"


def test_events_tell_what_changed_and_a_first_status_only_what_is_wrong() -> None:
    fine, bad = status(a_tick()), status(a_tick(pods=broken(NO_IMAGE)))

    assert of_transitions(JobStatus(), fine) == []
    assert [event.reason for event in of_transitions(JobStatus(), bad)] == ["Degraded"]
    assert [(event.kind, event.reason) for event in of_transitions(bad, fine)] == [
        ("Normal", "Ready"),
        ("Normal", "NotDegraded"),
    ]
    assert [event.kind for event in of_transitions(fine, bad) if event.reason == "Degraded"] == ["Warning"]


def test_the_pod_with_least_to_lose_goes_first() -> None:
    """ray-project/kuberay#1238: a busy worker was deleted on scale-down."""
    inflight = {"sampler-0": series((NOW - 9, 1.0), (NOW - 1, 12.0)), "sampler-1": series((NOW - 1, 3.0))}
    tick = a_tick(pods=[*working(), a_pod("going", Stage.SAMPLER, terminating=True)])

    costs = deletion_costs(tick.view, Rates(60.0, {signals.STAGE_INFLIGHT: inflight}))

    assert {name: cost for name, cost in costs.items() if name.startswith("sampler")} == {
        "sampler-0": 12,
        "sampler-1": 3,
        "sampler-2": 0,
        "sampler-3": 0,
    }
    assert "going" not in costs
