"""Advice on reallocation, and the symptoms that no replica cures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import Allocation, RevisionPhase, Stage
from steelyard.balance import balance, signals
from steelyard.balance.diagnose.remedies import CAUSES, LOOK_FIRST, advise, anchor, finding, objection
from steelyard.balance.gate import veto
from steelyard.balance.types import Action, Finding, Plan, Remedy, Symptom
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, Sheet, a_view, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_balance import judged
from tests.unit.balance.test_diagnose import calm, slow_samplers, stragglers, stuck_sampler
from tests.unit.balance.test_gate import WIDE, a_case, time


def a_finding(symptom: Symptom, stage: Stage | None = Stage.SAMPLER) -> Finding:
    return finding(symptom, stage, "the figures")


ADVICE: dict[str, tuple[list[Symptom], float | None, Remedy | None, str]] = {
    "a gain in sight": ([], 0.3, Remedy.REALLOCATE, "reallocate: within the spec up to 30 % can be gained"),
    "a gain in sight and a stage that is slow": ([Symptom.ROLLOUT_SLOW], 0.3, Remedy.REALLOCATE, "up to 30 %"),
    "no gain in sight and nothing that shows": (
        [],
        0.02,
        Remedy.NO_REALLOCATION,
        "gain more than 2 %; while its workload stays like this the job needs no balancing, and mode Fixed would do",
    ),
    "no gain in sight and tools that are slow": (
        [Symptom.ROLLOUT_SLOW],
        0.0,
        Remedy.NO_REALLOCATION,
        "see environment.concurrency, batch size, tool time-outs (docs/symptoms.md#rollout-slow)",
    ),
    "stragglers, whatever the model hopes": (
        [Symptom.LONG_TAIL, Symptom.ROLLOUT_SLOW],
        0.8,
        Remedy.FIX_FIRST,
        "fix this first, replicas will not: the figures; see environment.episode.timeoutSeconds",
    ),
    "a sick replica, even before anything is estimated": ([Symptom.SICK_REPLICA], None, Remedy.FIX_FIRST, "pod's log"),
    "nothing known": ([Symptom.ROLLOUT_SLOW], None, None, ""),
}


@pytest.mark.parametrize("case", ADVICE)
def test_what_to_do(case: str) -> None:
    shown, most_gain, remedy, says = ADVICE[case]
    advice = advise([a_finding(symptom) for symptom in shown], most_gain, least_gain=0.05)
    assert (advice and advice.remedy) == remedy
    assert says in (advice.reason if advice else "")


def test_every_symptom_says_what_to_look_at_first() -> None:
    assert set(LOOK_FIRST) == set(Symptom)
    assert anchor(Symptom.NO_MISMATCH) == "no-mismatch"


def moved(stage: Stage, replicas: int) -> Allocation:
    return START.replace(stage, {"whole": replicas} if stage is not Stage.ENVIRONMENT else {"default": replicas})


OBJECTS: dict[str, tuple[Symptom, Stage, Allocation, bool]] = {
    "more samplers do not help stragglers": (Symptom.LONG_TAIL, Stage.ENVIRONMENT, moved(Stage.SAMPLER, 3), True),
    "nor do more episodes": (Symptom.LONG_TAIL, Stage.ENVIRONMENT, moved(Stage.ENVIRONMENT, 2), True),
    "samplers may be taken from stragglers": (Symptom.LONG_TAIL, Stage.ENVIRONMENT, moved(Stage.SAMPLER, 1), False),
    "a judge is no straggler's business": (Symptom.LONG_TAIL, Stage.ENVIRONMENT, moved(Stage.REWARD_SERVER, 2), False),
    "a stage with a sick replica does not grow": (Symptom.SICK_REPLICA, Stage.SAMPLER, moved(Stage.SAMPLER, 3), True),
    "nor does it shrink": (Symptom.SICK_REPLICA, Stage.SAMPLER, moved(Stage.SAMPLER, 1), True),
    "nor does the other half of its loop": (Symptom.SICK_REPLICA, Stage.SAMPLER, moved(Stage.ENVIRONMENT, 2), True),
    "other stages may move": (Symptom.SICK_REPLICA, Stage.SAMPLER, moved(Stage.REWARD_SERVER, 2), False),
    "a stage that is merely slow may grow": (Symptom.ROLLOUT_SLOW, Stage.SAMPLER, moved(Stage.SAMPLER, 3), False),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_what_replicas_cannot_cure(case: str) -> None:
    symptom, stage, after, objects = OBJECTS[case]
    found = a_finding(symptom, stage)
    assert objection([found], START, after) == (found if objects else None)


def test_a_move_that_is_no_cure_is_vetoed_with_the_evidence() -> None:
    good = a_case(after=WIDE.replace(Stage.REWARD_SERVER, {"whole": 2}))
    assert veto(replace(good, findings=(a_finding(Symptom.LONG_TAIL),))) is None
    refused = veto(replace(good, findings=(a_finding(Symptom.SICK_REPLICA, Stage.REWARD_SERVER),)))
    assert refused is not None
    assert refused.kind == "FixFirst"
    assert refused.reason.startswith("no change because replicas are no cure: the figures; see that pod's log")


def tick(sheet: Sheet) -> Plan:
    return balance(a_view(demo_job(), (judged(),)), sheet.rates(), NOW)


def test_a_stage_is_not_scaled_while_one_of_its_replicas_is_sick() -> None:
    """The same pipeline gets more episodes when all samplers are well."""
    assert tick(slow_samplers()).decision.action is Action.MOVE
    plan = tick(stuck_sampler())
    assert plan.findings[0].symptom is Symptom.SICK_REPLICA
    assert plan.advice is not None
    assert plan.advice.remedy is Remedy.FIX_FIRST
    assert plan.decision.kind == "FixFirst"
    assert plan.revision is None


def test_stragglers_are_not_answered_with_replicas() -> None:
    plan = tick(stragglers())
    assert [one.symptom for one in plan.findings] == [Symptom.LONG_TAIL]
    assert plan.revision is None
    assert (plan.balanced.status, plan.balanced.reason) == (False, "FixFirst")


def test_no_mismatch_is_said_with_the_most_that_could_be_gained() -> None:
    """The trainer binds and may have no more replicas; nobody waits for long."""
    plan = tick(steady(trajectories=2, train_seconds=15.5, judge_seconds=0.1))
    (only,) = plan.findings
    assert only.symptom is Symptom.NO_MISMATCH
    assert only.stage is None
    assert "no mismatch: scaling will not help. No allocation within the spec would gain more than 0 %" in only.evidence
    assert only.look_first.startswith("reward, data and algorithm")
    assert plan.balanced.status
    assert plan.balanced.message == only.evidence
    assert plan.advice is not None
    assert plan.advice.remedy is Remedy.NO_REALLOCATION


def test_a_pipeline_that_could_gain_is_not_called_balanced() -> None:
    plan = tick(slow_samplers())
    assert Symptom.NO_MISMATCH not in {one.symptom for one in plan.findings}
    assert plan.advice is not None


def test_while_a_move_is_judged_its_verdict_is_awaited_before_anything_is_advised() -> None:
    open_ = a_revision(2, START, before=START, phase=RevisionPhase.SETTLING, status={"settling_time": time(NOW - 1)})
    plan = balance(a_view(demo_job(), (judged(), open_)), slow_samplers().rates(), NOW)
    assert plan.decision.kind == "OpenMove"
    assert plan.advice is None


def test_without_metrics_nothing_is_found_and_nothing_advised() -> None:
    plan = tick(Sheet())
    assert plan.findings == ()
    assert plan.advice is None
    assert not plan.balanced.status


def test_partial_metrics_give_findings_but_no_promise_of_gain() -> None:
    plan = tick(slow_samplers().without(signals.STAGE_SECONDS, "sampler-whole-0"))
    assert plan.decision.kind == "MetricsIncomplete"
    assert "sampler has no fresh metrics from 1 of 2 pods (sampler-whole-0)" in plan.decision.reason
    assert [one.symptom for one in plan.findings] == [Symptom.ROLLOUT_SLOW]
    assert plan.advice is None


def test_what_is_optional_never_blocks_a_decision() -> None:
    """The same decision with and without the exporters of nodes, claims and devices."""
    without, with_ = tick(calm()), calm()
    for metric in signals.OPTIONAL:
        with_.level(metric, "trainer-whole-0", 1.0)
    assert tick(with_).decision == without.decision
    assert without.metrics.status


def test_only_symptoms_that_return_under_any_allocation_are_fixed_first() -> None:
    assert Symptom.MEMORY_FULL not in CAUSES  # another replica is more memory
