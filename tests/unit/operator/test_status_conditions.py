"""The conditions and the phase: what each situation says, and in which words."""

from __future__ import annotations

import pytest

from steelyard.api import Condition, JobStatus, Stage
from steelyard.children.render import Ending
from steelyard.cluster.records import Problem
from steelyard.status import Tick, status
from steelyard.status.figures import moment
from steelyard.status.tick import PATIENCE_SECONDS
from tests.builders import a_revision
from tests.unit.operator.ticks import NO_IMAGE, NOW, a_pod, a_tick, broken, working


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
NO_NODE = Problem("Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
LONG_AGO = NOW - PATIENCE_SECONDS - 1
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
