"""The status: what each situation says, in which words, and when it is worth a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from steelyard.api import AgenticRLJob, AllocationRevision, Condition, JobStatus, Stage
from steelyard.balance import signals
from steelyard.balance.types import Action, Decision, Fact, Plan, Rates, Series, StageEstimate
from steelyard.children.render import Ending
from steelyard.cluster.records import Child, Job, Pod, Problem
from steelyard.cluster.view import View
from steelyard.status import Tick, status, worth_writing
from steelyard.status.figures import figure, moment
from steelyard.status.narration import of_transitions
from steelyard.status.tick import PATIENCE_SECONDS
from steelyard.status.victims import deletion_costs
from tests.builders import START, a_job, a_revision

NOW = 1_800_000_000.0
HOLD = Decision(Action.HOLD, "DeadBand", "no change because nothing gains 5 %")


def a_pod(name: str, stage: Stage, profile: str = "whole", **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "gpus": Fraction(0 if stage is Stage.ENVIRONMENT else 1),
        "bound": True,
        "ready": True,
        "terminating": False,
        "ended": False,
        "created": NOW - 100,
    }
    return Pod(name, f"uid-{name}", 1, stage.value, profile, **{**defaults, **fields})


def working(without: str = "") -> list[Pod]:
    """A pod for every replica of START."""
    return [
        a_pod(name, stage, profile)
        for stage, profiles in START.items()
        for profile, n in profiles.items()
        for i in range(n)
        if (name := f"{stage}-{i}") != without
    ]


def bus(ready: int = 1) -> Child:
    return Child("StatefulSet", "calculator-bus", "u", 1, 1, "owner", "d", None, replicas=1, created=1, ready=ready)


def a_tick(
    *,
    pods: list[Pod] | None = None,
    changes: Mapping[str, Any] | None = None,
    before: JobStatus | None = None,
    revision: AllocationRevision | None = None,
    bus_ready: int = 1,
    autoscaled: frozenset[str] = frozenset(),
    plan: Mapping[str, Any] | None = None,
    **more: Any,
) -> Tick:
    """One tick of a job that works, but for what the test names."""
    job: AgenticRLJob = a_job(changes, generation=3)
    record = Job(("default", "calculator"), job.metadata, before or JobStatus(), job)
    children = {(child.kind, child.name): child for child in [bus(bus_ready)]}
    active = revision or a_revision()
    view = View(record, (active,), children, tuple(working() if pods is None else pods), autoscaled, False)
    defaults: dict[str, Any] = {"metrics": Fact(True, "Complete", "all"), "balanced": Fact(True, "DeadBand", "it is")}
    return Tick(view, job, Plan(HOLD, active, **{**defaults, **(plan or {})}), Rates(), NOW, **more)


def told(tick: Tick) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {condition.type: (condition.status, condition.reason) for condition in status(tick).conditions}


def ready_before(generation: int = 3) -> JobStatus:
    ready = Condition(
        type="Ready",
        status="True",
        reason="ReplicasReady",
        message="all",
        last_transition_time=moment(NOW - 1000),
        observed_generation=generation,
    )
    return JobStatus(conditions=(ready,))


NO_ENTRYPOINT = Problem("CrashLoopBackOff", "my.module has no callable 'x'", exit_code=64)
NO_IMAGE = Problem("ImagePullBackOff", 'Back-off pulling image "nope:1"')
NO_NODE = Problem("Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
LONG_AGO = NOW - PATIENCE_SECONDS - 1


def broken(problem: Problem | None, stage: Stage = Stage.ENVIRONMENT, **fields: Any) -> list[Pod]:
    name = f"{stage}-0"
    return [
        *working(without=name),
        a_pod(name, stage, next(iter(START[stage])), ready=False, problem=problem, **fields),
    ]


CASES: dict[str, tuple[Tick, dict[str, tuple[str, str]], str]] = {
    "a job that works": (
        a_tick(),
        {
            "Ready": ("True", "ReplicasReady"),
            "Progressing": ("False", "ReplicasReady"),
            "Reconciling": ("False", "ReplicasReady"),
            "Suspended": ("False", "NotSuspended"),
            "MetricsAvailable": ("True", "Complete"),
            "Balanced": ("True", "DeadBand"),
            "Scheduled": ("True", "Scheduled"),
            "Conflict": ("False", "NoConflict"),
            "Degraded": ("False", "AsExpected"),
            "Complete": ("False", "NotComplete"),
            "Failed": ("False", "NotFailed"),
            "Stalled": ("False", "NotStalled"),
        },
        "Running",
    ),
    "a job that starts": (
        a_tick(pods=working(without="trainer-0")),
        {"Ready": ("False", "Starting"), "Progressing": ("True", "Starting"), "Reconciling": ("True", "Starting")},
        "Starting",
    ),
    "its bus is not there yet": (a_tick(bus_ready=0), {"Ready": ("False", "Starting")}, "Starting"),
    "a replica is lost for a moment": (
        a_tick(pods=working(without="trainer-0"), before=ready_before(), unready_since=NOW - 5),
        {"Ready": ("True", "ReplicasReady"), "Degraded": ("False", "AsExpected")},
        "Running",
    ),
    "a replica is lost for good": (
        a_tick(pods=working(without="trainer-0"), before=ready_before(), unready_since=LONG_AGO),
        {
            "Ready": ("False", "ReplicasLost"),
            "Degraded": ("True", "ReplicasLost"),
            "Progressing": ("False", "ReplicasLost"),
        },
        "Degraded",
    ),
    "a move of ours takes replicas away for a while": (
        a_tick(
            pods=working(without="reward-server-0"),
            before=ready_before(),
            revision=a_revision(2),
            unready_since=LONG_AGO,
        ),
        {
            "Ready": ("True", "ReplicasReady"),
            "Progressing": ("False", "ReplicasReady"),
            "Degraded": ("False", "AsExpected"),
        },
        "Running",
    ),
    "a new spec starts over": (
        a_tick(pods=working(without="trainer-0"), before=ready_before(generation=2)),
        {"Ready": ("False", "Starting"), "Reconciling": ("True", "Starting")},
        "Starting",
    ),
    "an entry point that does not import": (
        a_tick(pods=broken(NO_ENTRYPOINT)),
        {
            "Degraded": ("True", "ConfigurationError"),
            "Stalled": ("True", "ConfigurationError"),
            "Reconciling": ("False", "ConfigurationError"),
        },
        "Stalled",
    ),
    "an image that cannot be pulled": (
        a_tick(pods=broken(NO_IMAGE)),
        {"Degraded": ("True", "ImagePullBackOff"), "Stalled": ("False", "NotStalled")},
        "Degraded",
    ),
    "a volume that cannot be mounted": (
        a_tick(pods=broken(None), stuck={"environment-0": 'configmap "nope" not found'}),
        {"Degraded": ("True", "ContainerCannotBeCreated")},
        "Degraded",
    ),
    "a pod without a node": (
        a_tick(pods=broken(NO_NODE, bound=False)),
        {"Scheduled": ("False", "Unschedulable"), "Degraded": ("False", "AsExpected")},
        "Starting",
    ),
    "a trainer that dies again and again": (
        a_tick(pods=broken(Problem("Error", "CUDA error", exit_code=1), Stage.TRAINER, ended=True)),
        {"Degraded": ("True", "Error")},
        "Degraded",
    ),
    "a trainer that stopped after its commit": (
        a_tick(pods=broken(Problem("Error", "", exit_code=75), Stage.TRAINER, ended=True)),
        {"Degraded": ("False", "AsExpected")},
        "Starting",
    ),
    "the API server refuses a child": (
        a_tick(refused="exceeded quota: gpus"),
        {"Degraded": ("True", "ApplyRefused"), "Stalled": ("True", "ApplyRefused")},
        "Stalled",
    ),
    "somebody else owns replicas": (
        a_tick(autoscaled=frozenset({"calculator-environment"})),
        {"Conflict": ("True", "ReplicasOwnedElsewhere"), "Ready": ("True", "ReplicasReady")},
        "Running",
    ),
    "a job that stops": (
        a_tick(changes={"suspend": True}),
        {"Suspended": ("False", "Stopping"), "Ready": ("False", "Suspended"), "Reconciling": ("True", "Stopping")},
        "Stopping",
    ),
    "a job that stopped": (
        a_tick(changes={"suspend": True}, pods=[]),
        {"Suspended": ("True", "Suspended"), "Reconciling": ("False", "Suspended")},
        "Suspended",
    ),
    "a completed job": (
        a_tick(ended=Ending(complete=True, message="", profiles=("whole",))),
        {"Complete": ("True", "TrainerComplete"), "Ready": ("False", "Complete"), "Reconciling": ("False", "Ended")},
        "Complete",
    ),
    "a failed job": (
        a_tick(ended=Ending(complete=False, message="BackoffLimit", profiles=("whole",))),
        {
            "Failed": ("True", "TrainerFailed"),
            "Stalled": ("True", "TrainerFailed"),
            "Degraded": ("False", "AsExpected"),
        },
        "Failed",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_situation_says(case: str) -> None:
    tick, want, phase = CASES[case]
    found = told(tick)

    assert {kind: found[kind] for kind in want} == want
    assert status(tick).phase == phase


def test_the_users_mistake_is_told_before_the_clusters() -> None:
    pods = [*broken(NO_IMAGE, Stage.ENVIRONMENT), a_pod("zz", Stage.SAMPLER, ready=False, problem=NO_ENTRYPOINT)]

    degraded = status(a_tick(pods=pods)).condition("Degraded")

    assert degraded is not None
    assert degraded.message == "pod zz: my.module has no callable 'x'"


def test_a_transition_time_changes_with_the_status_alone() -> None:
    before = ready_before()
    still = status(a_tick(before=before)).condition("Ready")
    lost = status(a_tick(before=before, pods=[], unready_since=LONG_AGO)).condition("Ready")

    assert still is not None
    assert still.last_transition_time == moment(NOW - 1000)
    assert lost is not None
    assert lost.last_transition_time == moment(NOW)


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
