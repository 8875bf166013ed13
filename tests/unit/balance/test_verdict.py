"""From recorded to judged: one step at a time, against what the old allocation would do now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steelyard.api import AllocationRevision, Measured, Origin, RevisionPhase, Stage, Verdict
from steelyard.balance import signals
from steelyard.balance.counterfactual import counterfactual
from steelyard.balance.ledger import inputs_of
from steelyard.balance.model import Model
from steelyard.balance.observe import longest_window, observe
from steelyard.balance.types import PodView, Rates, Seen, Series
from steelyard.balance.verdict import Judgement, judge
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, Sheet, a_pod, a_view, pods_of, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_gate import time
from tests.unit.balance.test_model import a_model

AFTER = START.replace(Stage.ENVIRONMENT, {"default": 2})


def a_move(
    phase: RevisionPhase,
    *,
    throughput: float = 1.0,
    origin: Origin = Origin.OPERATOR,
    trial: bool = True,
    **status: Any,
) -> AllocationRevision:
    """Environment 1 -> 2, decided when `throughput` was measured."""
    model = a_model(workload=replace(a_model().workload, outside_seconds=3.0, waiting_seconds=0.5))
    return a_revision(
        2,
        AFTER,
        before=START,
        phase=phase,
        origin=origin,
        inputs=inputs_of(model, throughput),
        predicted={"gainPercent": 80, "costSeconds": 2} if trial else None,
        status=status,
    )


def measuring(seconds: float = 100, **more: Any) -> dict[str, Any]:
    """Status of a revision that has been measured for so long."""
    return {
        "applied_time": time(NOW - seconds - 20),
        "settling_time": time(NOW - seconds - 10),
        "measuring_time": time(NOW - seconds),
        **more,
    }


def judged(revision: AllocationRevision, sheet: Sheet | None = None, seen: Seen | None = None) -> Judgement:
    seen = seen or a_view(allocation=AFTER, revisions=(revision,))
    rates = (sheet or steady(environments=2)).rates()
    return judge(revision, seen, rates, NOW)


def test_a_recorded_revision_is_being_applied_from_the_next_tick() -> None:
    got = judged(a_move(RevisionPhase.PENDING))
    assert got.status.phase is RevisionPhase.APPLYING
    assert got.status.applied_time is not None


@pytest.mark.parametrize(("origin", "kept"), [(Origin.USER, True), (Origin.OPERATOR, False)])
def test_what_was_measured_when_a_users_revision_came_is_kept_to_judge_it_by(origin: Origin, kept: bool) -> None:
    """Nobody who writes a revision by hand knows it; the balance's own have it in their spec."""
    written = a_move(RevisionPhase.PENDING, origin=origin)
    told = {"throughput": "2"}
    got = judge(written, a_view(allocation=START, revisions=(written,)), steady().rates(), NOW, told)
    assert got.status.inputs == (told if kept else {})


def test_it_settles_once_all_its_replicas_are_ready() -> None:
    got = judged(a_move(RevisionPhase.APPLYING, applied_time=time(NOW - 9)))
    assert got.status.phase is RevisionPhase.SETTLING


def test_a_pause_moved_nothing_and_is_not_judged_by_what_happens_meanwhile() -> None:
    pause = a_revision(2, AFTER, before=AFTER, phase=RevisionPhase.APPLYING, origin=Origin.USER)
    got = judged(pause)
    assert (got.status.phase, got.status.verdict, got.roll_back) == (RevisionPhase.JUDGED, None, False)
    assert got.status.evidence == "it moved nothing, so there is nothing to judge"


def starting(problem: str | None = None, waited: float = 60) -> tuple[AllocationRevision, Seen]:
    pods: list[PodView] = [
        *pods_of(START),
        replace(a_pod("new", Stage.ENVIRONMENT, "default"), ready=False, problem=problem),
    ]
    revision = a_move(RevisionPhase.APPLYING, applied_time=time(NOW - waited))
    return revision, a_view(allocation=AFTER, pods=pods, revisions=(revision,))


def test_it_waits_for_replicas_and_says_for_which() -> None:
    revision, seen = starting()
    got = judged(revision, seen=seen)
    assert got.status.phase is RevisionPhase.APPLYING
    assert got.progress == "its replicas are starting for 60 s: environment 1 of 2 ready"


DEADLINES: dict[str, tuple[str | None, float, bool]] = {
    "a slow start is given half an hour": (None, 1790, False),
    "then it has failed": (None, 1810, True),
    "an unschedulable replica is given five minutes": ("Unschedulable", 290, False),
    "then that has failed": ("Unschedulable", 310, True),
}


@pytest.mark.parametrize("case", DEADLINES)
def test_a_move_has_a_deadline(case: str) -> None:
    problem, waited, fails = DEADLINES[case]
    revision, seen = starting(problem, waited)
    got = judged(revision, seen=seen)
    assert got.roll_back is fails
    assert (got.status.verdict is Verdict.ROLLED_BACK) is fails


def test_a_users_revision_is_waited_for_without_end() -> None:
    revision, seen = starting("Unschedulable", 99_999)
    mine = a_move(RevisionPhase.APPLYING, origin=Origin.USER, trial=False, applied_time=revision.status.applied_time)
    assert not judged(mine, seen=seen).roll_back


def test_settling_lasts_until_what_was_open_is_trained() -> None:
    """7 in the environment and 80 scored or waiting: at 2/s trained, 30 s are not enough and 60 s are."""
    sheet = steady(trajectories=2, environments=2)
    sheet.level(signals.BUFFER_DEPTH, "calculator-bus-0", 80, buffer="experience")
    applied = time(NOW - 70)
    early = judged(a_move(RevisionPhase.SETTLING, settling_time=time(NOW - 30), applied_time=applied), sheet)
    late = judged(a_move(RevisionPhase.SETTLING, settling_time=time(NOW - 60), applied_time=applied), sheet)
    assert early.status.measuring_time is None
    assert "of the 87 trajectories open at the move are trained" in early.progress
    assert late.status.measuring_time is not None


def longest(sheet: Sheet) -> Rates:
    """As far back as it makes sense to read at a scrape a second."""
    return replace(sheet.rates(), window_seconds=longest_window(1.0))


@pytest.mark.parametrize(("waited", "settles"), [(890, False), (910, True)])
def test_settling_ends_where_the_samples_end(waited: float, settles: bool) -> None:
    """At 2/s, 4,000 open trajectories take longer than samples are read back, so they would never be seen trained. What
    was lost by then is unknown."""
    sheet = steady(trajectories=2, environments=2)
    sheet.level(signals.BUFFER_DEPTH, "calculator-bus-0", 4000, buffer="experience")
    revision = a_move(
        RevisionPhase.SETTLING, throughput=2.0, settling_time=time(NOW - waited), applied_time=time(NOW - waited - 9)
    )
    got = judge(revision, a_view(allocation=AFTER, revisions=(revision,)), longest(sheet), NOW)
    assert (got.status.measuring_time is not None) is settles
    assert got.status.measured is None


def test_what_a_move_cost_is_unknown_where_its_start_was_not_read() -> None:
    """The operator came back a minute ago and reads a minute: 64 s of training would pass for nothing trained."""
    revision = a_move(
        RevisionPhase.SETTLING, throughput=2.0, settling_time=time(NOW - 70), applied_time=time(NOW - 124)
    )
    got = judged(revision)
    assert got.status.measuring_time is not None
    assert got.status.measured is None


def test_settling_lasts_at_least_settle_seconds() -> None:
    job = demo_job({"scaling.evaluation.settleSeconds": 60})
    revision = a_move(RevisionPhase.SETTLING, settling_time=time(NOW - 50), applied_time=time(NOW - 50))
    got = judged(revision, seen=a_view(job, allocation=AFTER, revisions=(revision,)))
    assert got.status.measuring_time is None


def test_transition_cost_is_the_throughput_lost_until_it_settled() -> None:
    """2/s were trained over 64 s where 4/s were before: 32 s of the old throughput are lost."""
    revision = a_move(RevisionPhase.SETTLING, throughput=4.0, settling_time=time(NOW - 30), applied_time=time(NOW - 64))
    measured = judged(revision).status.measured
    assert measured is not None
    assert float(measured.transition_cost_seconds or "nan") == pytest.approx(32, abs=2)


def settled(model: Model, throughput: float, error: float = 0.0) -> Measured:
    """What the move is found to have cost: 2/s are trained over the 64 s until it settled."""
    revision = a_move(RevisionPhase.SETTLING, settling_time=time(NOW - 30), applied_time=time(NOW - 64))
    spec = revision.spec.model_copy(update={"inputs": inputs_of(model, throughput, error)})
    measured = judged(revision.model_copy(update={"spec": spec})).status.measured
    assert measured is not None
    return measured


def test_drift_during_a_move_is_no_part_of_its_cost() -> None:
    """Episodes took 1.5 s when it was decided and 3.5 s since: half the throughput is lost to that."""
    shorter = a_model(workload=replace(a_model().workload, outside_seconds=1.0, waiting_seconds=0.5))
    alike = a_model(workload=replace(a_model().workload, outside_seconds=3.0, waiting_seconds=0.5))
    assert float(settled(alike, 4.0).transition_cost_seconds or "nan") == pytest.approx(32, abs=2)
    assert float(settled(shorter, 4.0).transition_cost_seconds or "nan") < 8


def test_a_cost_is_known_as_well_as_the_throughput_it_is_compared_with() -> None:
    """32 s of the old throughput were reached, known to 2 % or to 30 %; a step of 8 s is cut at both ends."""
    alike = a_model(workload=replace(a_model().workload, outside_seconds=3.0, waiting_seconds=0.5))
    errors = [float(settled(alike, 4.0, error).transition_cost_error_seconds or "nan") for error in (0.02, 0.3)]
    assert errors == pytest.approx([4.0, (4**2 + (0.3 * 32) ** 2) ** 0.5], rel=0.15)


VERDICTS: dict[str, tuple[float, dict[str, Any], Verdict | None, bool]] = {
    "clearly faster is kept": (1.0, {}, Verdict.KEPT, False),
    "a little faster than minGain/2 is kept": (1.94, {}, Verdict.KEPT, False),
    "clearly slower is rolled back": (3.0, {}, Verdict.ROLLED_BACK, True),
    "neither is measured again": (2.0, {}, None, False),
    "neither after three more windows is inconclusive": (2.0, {"windows": 3}, Verdict.INCONCLUSIVE, False),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict(case: str) -> None:
    """2 trajectories/s are measured now; the case gives what was measured before."""
    before, status, want, rolls_back = VERDICTS[case]
    window = 60 * (1 + status.get("windows", 0) / 3)
    revision = a_move(RevisionPhase.SETTLING, throughput=before, **measuring(window, **status))
    got = judged(revision, steady(trajectories=2, environments=2, batch=8 if status else 32))
    assert got.status.verdict is want
    assert got.roll_back is rolls_back
    assert "trajectories/s over" in (got.status.evidence or "")


def test_fewer_steps_than_asked_for_give_no_verdict() -> None:
    got = judged(a_move(RevisionPhase.SETTLING, **measuring(40)))
    assert got.status.verdict is None
    assert got.progress == "1 of 3 steps are measured"


def test_fewer_gpus_for_nearly_the_same_throughput_are_kept() -> None:
    revision = a_move(RevisionPhase.SETTLING, throughput=2.1, **measuring())
    before = START.replace(Stage.SAMPLER, {"whole": 3})
    move = revision.spec.allocation.model_copy(update={"before": before, "after": AFTER})
    revision = revision.model_copy(update={"spec": revision.spec.model_copy(update={"allocation": move})})
    assert judged(revision).status.verdict is Verdict.KEPT


def test_longer_tools_are_not_mistaken_for_harm() -> None:
    """Tools got twice as slow meanwhile: the old allocation would do far less than it did."""
    revision = a_move(RevisionPhase.SETTLING, throughput=2.2, **measuring())
    same_tools = judged(revision, steady(trajectories=2, environments=2, tool_seconds=3.0))
    slow_tools = judged(revision, steady(trajectories=2, environments=2, tool_seconds=6.0))
    assert same_tools.status.verdict is Verdict.ROLLED_BACK
    assert slow_tools.status.verdict is Verdict.KEPT


def test_a_drift_within_the_noise_of_its_windows_is_hardly_corrected() -> None:
    """Episodes look 7 % longer; where each window knows them to 1 % that is drift, to 30 % it is chance."""

    def before(error: float) -> float:
        model = a_model(workload=replace(a_model().workload, outside_seconds=2.8, waiting_seconds=0.5, error=error))
        revision = a_move(RevisionPhase.SETTLING, throughput=2.0, **measuring())
        spec = revision.spec.model_copy(update={"inputs": inputs_of(model, 2.0)})
        observed = observe(a_view(allocation=AFTER), steady(environments=2).rates(), NOW, NOW - 100, whole=True)
        found = counterfactual(revision.model_copy(update={"spec": spec}), demo_job().spec, observed)
        assert found is not None
        return found.throughput

    assert before(0.01) == pytest.approx(1.88, abs=0.03)
    assert before(0.3) == pytest.approx(2.0, abs=0.03)


def test_what_was_measured_badly_before_condemns_nothing() -> None:
    model = a_model(workload=replace(a_model().workload, outside_seconds=3.0, waiting_seconds=0.5))
    for before, error, verdict in (
        (2.4, 0.02, Verdict.ROLLED_BACK),
        (2.4, 0.3, Verdict.INCONCLUSIVE),
        (4.6, 0.3, Verdict.ROLLED_BACK),
        (5.0, 0.7, Verdict.INCONCLUSIVE),  # a third of it by chance is as likely as three times as much
    ):
        revision = a_move(RevisionPhase.SETTLING, throughput=before, **measuring())
        spec = revision.spec.model_copy(update={"inputs": inputs_of(model, before, error)})
        assert judged(revision.model_copy(update={"spec": spec})).status.verdict is verdict


@pytest.mark.parametrize(("error", "verdict"), [(0.03, None), (0.1, Verdict.INCONCLUSIVE)])
def test_more_windows_are_measured_where_they_would_tell_more(error: float, verdict: Verdict | None) -> None:
    """The 2 trajectories/s of now are known to 2 %. The 2.05 of before were known to 3 %, or to 10 %: then a longer
    look at what is now says no more about the move."""
    model = a_model(workload=replace(a_model().workload, outside_seconds=3.0, waiting_seconds=0.5))
    revision = a_move(RevisionPhase.SETTLING, throughput=2.05, **measuring())
    spec = revision.spec.model_copy(update={"inputs": inputs_of(model, 2.05, error)})
    assert judged(revision.model_copy(update={"spec": spec})).status.verdict is verdict


def test_a_slower_judge_is_not_drift_but_harm() -> None:
    """Capacities of before: what the move did to a stage's speed counts against the move."""
    revision = a_move(RevisionPhase.SETTLING, throughput=2.5, **measuring())
    got = judged(revision, steady(trajectories=1, environments=2, judge_seconds=0.9, batch=16))
    assert got.status.verdict is Verdict.ROLLED_BACK


def test_no_data_is_no_verdict_and_no_stall() -> None:
    """argoproj/argo-rollouts#1466: an empty result pauses the analysis."""
    revision = a_move(RevisionPhase.SETTLING, **measuring(9000))
    seen = a_view(allocation=AFTER, revisions=(revision,))
    got = judge(revision, seen, Rates(120), NOW)
    assert got.status == revision.status
    assert not got.roll_back


def test_a_trainer_that_stands_still_is_a_stall() -> None:
    revision = a_move(RevisionPhase.SETTLING, throughput=2.0, **measuring(2000))
    sheet = steady(environments=2)
    for metric in (signals.STEP_COUNT, signals.STAGE_UNITS):
        sheet.without(metric, "trainer-whole-0")
        sheet.level(metric, "trainer-whole-0", 5, **({"outcome": "ok"} if metric == signals.STAGE_UNITS else {}))
    got = judged(revision, sheet)
    assert got.roll_back
    assert "the trainer stalled" in (got.status.evidence or "")


@pytest.mark.parametrize(("silent", "stalls"), [(310, False), (330, True)])
def test_a_stall_is_a_stall_however_much_was_trained_before(silent: float, stalls: bool) -> None:
    """Two batches of 32 should take 32 s at 2/s. That 400 were trained since the move makes them no slower."""
    revision = a_move(
        RevisionPhase.SETTLING, throughput=2.0, settling_time=time(NOW - 600), applied_time=time(NOW - 600)
    )
    sheet = Sheet()
    sheet.level(signals.BUFFER_DEPTH, "calculator-bus-0", 4000, buffer="experience")
    for metric in (signals.STEP_COUNT, signals.STAGE_UNITS):
        labels = {"outcome": "ok"} if metric == signals.STAGE_UNITS else {}
        samples = tuple((NOW - at, 0.0 if at > silent else 400.0) for at in range(600, -1, -1))
        sheet.samples[metric] = {"trainer-whole-0": [Series(tuple(labels.items()), samples)]}
    busy = Series((("state", "busy"),), tuple((NOW - at, 600.0 - at) for at in range(600, -1, -1)))
    sheet.samples[signals.STAGE_SECONDS] = {"trainer-whole-0": [busy]}
    trainer = [pod for pod in pods_of(AFTER) if pod.stage is Stage.TRAINER]
    seen = a_view(allocation=AFTER, pods=trainer, revisions=(revision,))
    got = judge(revision, seen, longest(sheet), NOW)
    assert got.roll_back is stalls


@pytest.mark.parametrize(
    ("job", "revision"),
    [
        (demo_job({"scaling.mode": "Observe"}), a_move(RevisionPhase.SETTLING, throughput=9, **measuring())),
        (demo_job(), a_move(RevisionPhase.SETTLING, throughput=9, trial=False, **measuring())),
        (demo_job(), a_move(RevisionPhase.SETTLING, throughput=9, origin=Origin.ROLLBACK, **measuring())),
    ],
    ids=["mode Observe", "made by the user's spec", "a rollback, which never cascades"],
)
def test_harm_is_told_but_not_taken_back(job: Any, revision: AllocationRevision) -> None:
    got = judged(revision, seen=a_view(job, allocation=AFTER, revisions=(revision,)))
    assert not got.roll_back
    assert got.status.verdict is not Verdict.ROLLED_BACK


def test_a_first_revision_is_measured_and_compared_with_nothing() -> None:
    first = a_revision(1, START, phase=RevisionPhase.SETTLING, status=measuring())
    got = judged(first, steady(), a_view(revisions=(first,)))
    assert got.status.phase is RevisionPhase.JUDGED
    assert got.status.verdict is None
    assert got.status.measured is not None
    assert got.status.measured.throughput_after == "2"
