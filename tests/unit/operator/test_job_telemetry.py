"""The metrics of each job: what is known is told, what is not known has no series, and what is gone is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from steelyard.api import Origin, RevisionPhase, Stage, Verdict
from steelyard.balance import signals
from steelyard.balance.types import (
    Action,
    Advice,
    Bottleneck,
    Decision,
    Finding,
    Rates,
    Remedy,
    Series,
    StageEstimate,
    Symptom,
)
from steelyard.status import status, status_of_broken
from steelyard.telemetry.jobs import JobTelemetry
from tests.builders import START, a_revision, an_allocation
from tests.unit.operator.operating import FIXED, KEY, Operated
from tests.unit.operator.ticks import NOW, a_pod, a_tick

JOB = {"rl_namespace": "default", "rl_job": "calculator"}
SAMPLER, TRAINER = Stage.SAMPLER, Stage.TRAINER


def told(registry: CollectorRegistry, *, everybody: bool = False) -> dict[str, float]:
    """Series as a query would name them, the job's own labels and `steelyard_job_` left out."""
    found = {}
    for metric in registry.collect():
        for sample in metric.samples:
            mine = JOB.items() <= sample.labels.items()
            assert mine or everybody
            rest = ",".join(f"{k}={v}" for k, v in sample.labels.items() if k not in JOB)
            found[f"{sample.name.removeprefix('steelyard_job_')}{{{rest}}}"] = sample.value
    return found


def shown(**tick: Any) -> dict[str, float]:
    """What is told of one tick of a job that works, but for what the test names."""
    registry = CollectorRegistry()
    one = a_tick(**tick)
    JobTelemetry(registry).show(KEY, one, status(one))
    return told(registry)


PLANS: dict[str, tuple[dict[str, Any], dict[str, float | None]]] = {
    "throughput": ({"throughput": 1.234}, {"trajectories_per_second{}": 1.234}),
    "an unknown throughput": ({"throughput": None}, {"trajectories_per_second{}": None}),
    "a throughput of zero, which is known": ({"throughput": 0.0}, {"trajectories_per_second{}": 0.0}),
    "the bottleneck, and that the others are none": (
        {"bottleneck": Bottleneck(Stage.REWARD_SERVER, "it queues")},
        {"bottleneck{stage=reward-server}": 1, "bottleneck{stage=sampler}": 0, "bottleneck{stage=trainer}": 0},
    ),
    "no bottleneck while none is known": (
        {"bottleneck": None},
        {"bottleneck{stage=reward-server}": None, "bottleneck{stage=sampler}": None},
    ),
    "estimates of a stage, and nothing of those that are not known": (
        {"stages": {SAMPLER: StageEstimate(throughput=900.0, utilization=0.8, wait=0.0), TRAINER: StageEstimate()}},
        {
            "stage_units_per_second{stage=sampler}": 900.0,
            "stage_utilization_ratio{stage=sampler}": 0.8,
            "stage_starved_ratio{stage=sampler}": 0.0,
            "stage_blocked_ratio{stage=sampler}": None,
            "stage_capacity_trajectories_per_second{stage=sampler}": None,
            "stage_backlog{stage=sampler}": None,
            "stage_utilization_ratio{stage=trainer}": None,
        },
    ),
    "findings, also of the whole pipeline": (
        {
            "findings": (
                Finding(Symptom.LONG_TAIL, Stage.ENVIRONMENT, "few run", "time-outs"),
                Finding(Symptom.NO_MISMATCH, None, "nothing shows", "nothing"),
            )
        },
        {"finding{symptom=LongTail,stage=environment}": 1, "finding{symptom=NoMismatch,stage=}": 1},
    ),
    "what is recommended": (
        {"advice": Advice(Remedy.FIX_FIRST, "stragglers")},
        {"recommendation{remedy=FixFirst}": 1, "recommendation{remedy=Reallocate}": None},
    ),
    "the rule that decided": (
        {"decision": Decision(Action.HOLD, "Cooldown", "no change because it rests")},
        {"decision{action=Hold,kind=Cooldown}": 1, "decisions_total{action=Hold,kind=Cooldown}": 1},
    ),
}


@pytest.mark.parametrize("what", PLANS)
def test_a_plan_is_told_as_it_is(what: str) -> None:
    plan, want = PLANS[what]
    series = shown(plan=plan)
    assert {name: series.get(name) for name in want} == want


def test_gpus_and_replicas_by_stage_profile_and_state() -> None:
    pods = [
        a_pod("a", SAMPLER),
        a_pod("b", SAMPLER, ready=False),
        a_pod("c", SAMPLER, "slice", gpus=Fraction(1, 2), terminating=True),
        a_pod("d", TRAINER, ready=False, bound=False),
    ]
    series = shown(pods=pods)
    want = {
        "gpus_budget{}": 8,
        "gpus_used{}": 2.5,
        "stage_gpus{stage=sampler}": 2.5,
        "stage_gpus{stage=trainer}": 0,
        "replicas{stage=sampler,profile=whole,state=desired}": START[SAMPLER]["whole"],
        "replicas{stage=sampler,profile=whole,state=ready}": 1,
        "replicas{stage=sampler,profile=whole,state=pending}": 1,
        "replicas{stage=sampler,profile=slice,state=draining}": 1,
        "replicas{stage=trainer,profile=whole,state=ready}": 0,
        "stage_replicas_max{stage=sampler}": 6,
    }
    assert {name: series[name] for name in want} == want


def test_conditions_are_one_or_zero_and_the_phase_is_one_word() -> None:
    series = shown()
    assert series["condition{condition=Ready}"] == 1
    assert series["condition{condition=Stalled}"] == 0
    assert [name for name in series if name.startswith("phase")] == ["phase{phase=Running}"]


def test_a_job_with_an_invalid_spec_tells_its_conditions_and_no_figures() -> None:
    registry, tick = CollectorRegistry(), a_tick(plan={"throughput": 1.0})
    telemetry = JobTelemetry(registry)
    telemetry.show(KEY, tick, status(tick))
    telemetry.show_broken(KEY, status_of_broken(tick.view.job, NOW))

    series = told(registry)
    assert series["condition{condition=Stalled}"] == 1
    assert {name.split("{")[0] for name in series} == {"condition", "phase", "decisions_total"}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW + seconds, UTC)


FEWER = an_allocation({SAMPLER: {"whole": 3}})
OTHER = an_allocation({SAMPLER: {"whole": 2, "slice": 2}, Stage.ENVIRONMENT: {"default": 2}})
LEDGER = (
    a_revision(1, phase=RevisionPhase.SUPERSEDED, status={"applied_time": at(-900)}),
    a_revision(
        2,
        FEWER,
        before=an_allocation(),
        phase=RevisionPhase.SUPERSEDED,
        predicted={"gain_percent": 12, "cost_seconds": 30},
        status={
            "applied_time": at(-800),
            "judged_time": at(-700),
            "verdict": "RolledBack",
            "measured": {"throughput_before": "2", "throughput_after": "1.5", "transition_cost_seconds": "21"},
        },
    ),
    a_revision(
        3, before=FEWER, origin=Origin.ROLLBACK, phase=RevisionPhase.SUPERSEDED, status={"applied_time": at(-690)}
    ),
    a_revision(4, OTHER, before=an_allocation(), phase=RevisionPhase.SETTLING, status={"applied_time": at(-60)}),
)


def with_ledger(*ledger: Any, **tick: Any) -> dict[str, float]:
    one = a_tick(revision=ledger[-1], **tick)
    one = replace(one, view=replace(one.view, revisions=ledger))
    registry = CollectorRegistry()
    JobTelemetry(registry).show(KEY, one, status(one))
    return told(registry)


def test_the_ledger_tells_moves_by_stage_and_direction_and_verdicts_but_no_first_allocation() -> None:
    series = with_ledger(*LEDGER)
    moves = {name: value - NOW for name, value in series.items() if name.startswith("last_")}
    del moves["last_tick_timestamp_seconds{}"]
    assert moves == {
        "last_move_timestamp_seconds{stage=sampler,direction=down,origin=Operator}": -800,
        "last_move_timestamp_seconds{stage=sampler,direction=up,origin=Rollback}": -690,
        "last_move_timestamp_seconds{stage=sampler,direction=profile,origin=Operator}": -60,
        "last_move_timestamp_seconds{stage=environment,direction=up,origin=Operator}": -60,
        "last_verdict_timestamp_seconds{verdict=RolledBack}": -700,
    }
    assert {name: n for name, n in series.items() if name.startswith("revision")} == {
        "revision{}": 4,
        "revisions{origin=Operator,verdict=Unjudged}": 2,
        "revisions{origin=Operator,verdict=RolledBack}": 1,
        "revisions{origin=Rollback,verdict=Unjudged}": 1,
    }


DIRECTIONS = [
    ({"whole": 2}, {"whole": 3}, "up"),
    ({"whole": 2}, {"whole": 2, "slice": 1}, "up"),
    ({"whole": 3, "slice": 1}, {"whole": 3}, "down"),
    ({"whole": 2}, {"slice": 2}, "profile"),
    ({"whole": 1}, {"slice": 2}, "profile"),
]


@pytest.mark.parametrize(("before", "after", "want"), DIRECTIONS)
def test_a_move_from_one_profile_to_another_is_neither_up_nor_down(
    before: dict[str, int], after: dict[str, int], want: str
) -> None:
    was, is_now = (an_allocation({SAMPLER: profiles}) for profiles in (before, after))
    series = with_ledger(LEDGER[0], a_revision(2, is_now, before=was, status={"applied_time": at(0)}))
    (told,) = (name for name in series if name.startswith("last_move"))
    assert f"direction={want}," in told


def test_a_verdict_of_this_very_tick_is_told_at_once() -> None:
    judged = LEDGER[3].status.model_copy(
        update={"phase": RevisionPhase.JUDGED, "verdict": Verdict.KEPT, "judged_time": at(0)}
    )
    series = with_ledger(*LEDGER, plan={"updates": {"calculator-4": judged}})
    assert series["last_verdict_timestamp_seconds{verdict=Kept}"] == NOW
    assert series["revisions{origin=Operator,verdict=Kept}"] == 1


def test_prediction_and_measurement_are_of_the_same_move() -> None:
    series = with_ledger(*LEDGER)
    assert series["predicted_gain_ratio{}"] == 0.12
    assert series["measured_gain_ratio{}"] == -0.25
    assert (series["predicted_cost_seconds{}"], series["measured_cost_seconds{}"]) == (30, 21)
    assert not [name for name in shown() if "gain_ratio" in name or "cost_seconds" in name]


HOLDS: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "an end": (
        {"expires_at": at(600)},
        {"hold_since_timestamp_seconds{}": -60, "hold_expires_timestamp_seconds{}": 600},
    ),
    "no end": ({"expires_at": None}, {"hold_since_timestamp_seconds{}": -60}),
    "an end that has passed": ({"expires_at": at(-1)}, {}),
}


@pytest.mark.parametrize("hold", HOLDS)
def test_a_hold_with(hold: str) -> None:
    spec, want = HOLDS[hold]
    held = a_revision(2, FEWER, origin=Origin.USER, status={"applied_time": at(-60)}, **spec)
    series = with_ledger(LEDGER[0], held)
    assert {name: value - NOW for name, value in series.items() if name.startswith("hold")} == want


def sampled(when: float, stage: Stage = SAMPLER) -> Rates:
    return Rates(60.0, {signals.STAGE_SECONDS: {f"{stage}-0": (Series((), ((when - 15, 1.0), (when, 2.0))),)}})


def test_the_time_of_the_newest_sample_stays_known_while_the_source_is_away() -> None:
    registry, tick = CollectorRegistry(), a_tick()
    telemetry = JobTelemetry(registry)
    for rates in (sampled(NOW - 5), Rates()):
        one = replace(tick, rates=rates)
        telemetry.show(KEY, one, status(one))
        series = told(registry)
        assert series["metrics_timestamp_seconds{stage=sampler}"] == NOW - 5
        assert "metrics_timestamp_seconds{stage=trainer}" not in series, "absent is not zero"


def test_rounds_are_counted_by_decision() -> None:
    registry, tick = CollectorRegistry(), a_tick()
    telemetry = JobTelemetry(registry)
    for _ in range(3):
        telemetry.show(KEY, tick, status(tick))
    assert told(registry)["decisions_total{action=Hold,kind=DeadBand}"] == 3


def test_jobs_do_not_mix_and_a_forgotten_one_has_no_series() -> None:
    registry, tick = CollectorRegistry(), a_tick()
    telemetry = JobTelemetry(registry)
    telemetry.show(KEY, tick, status(tick))
    telemetry.show(("other", "job"), tick, status(tick))
    telemetry.forget(("other", "job"))
    assert told(registry), "the job that stays"
    telemetry.forget(KEY)
    assert not told(registry, everybody=True)


def test_a_job_never_has_more_than_two_hundred_series() -> None:
    estimate = StageEstimate(1.0, 0.5, 1.0, 1.0, 0.1, 0.1)
    everything = {
        "throughput": 1.0,
        "bottleneck": Bottleneck(SAMPLER, "it binds"),
        "stages": dict.fromkeys(Stage, estimate),
        "findings": tuple(Finding(symptom, SAMPLER, "", "") for symptom in Symptom),
        "advice": Advice(Remedy.FIX_FIRST, ""),
    }
    assert 90 < len(with_ledger(*LEDGER, plan=everything)) < 200


async def test_the_controller_tells_each_tick_and_forgets_a_deleted_job(operated: Operated) -> None:
    registry = operated.job._deps.telemetry.registry
    labels = {**JOB, "condition": "Ready"}
    assert registry.get_sample_value("steelyard_job_condition", labels) == 1
    assert registry.get_sample_value("steelyard_operator_metrics_reads_total", {"outcome": "Unreachable"})
    operated.cluster.delete("AgenticRLJob", "calculator")
    await operated.tick()
    assert registry.get_sample_value("steelyard_job_condition", labels) is None


async def test_the_controller_tells_of_an_invalid_spec() -> None:
    operated = Operated(FIXED)
    await operated.settle()
    operated.change_spec({"budget": {"gpus": 0}})
    await operated.tick()
    registry = operated.job._deps.telemetry.registry
    assert registry.get_sample_value("steelyard_job_condition", {**JOB, "condition": "Stalled"}) == 1
    assert registry.get_sample_value("steelyard_job_gpus_used", JOB) is None
