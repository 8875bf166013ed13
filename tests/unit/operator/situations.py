"""Situations a job can be in: what the tick saw, what its conditions say, and the phase for people."""

from __future__ import annotations

from fractions import Fraction

from steelyard.api import Condition, JobStatus, Stage
from steelyard.balance.types import Fact
from steelyard.children.render import Ending
from steelyard.cluster.problems import Problem
from steelyard.cluster.quota import Means, Quota
from steelyard.status import Tick
from steelyard.status.figures import moment
from steelyard.status.tick import PATIENCE_SECONDS
from tests.builders import a_revision
from tests.unit.operator.ticks import NO_IMAGE, NOW, a_tick, broken, working


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


def of_pool(reason: str, *, refused: bool = False) -> Means:
    """What a job has to work with when its pool lends it nothing."""
    return Means(
        Fraction(0), Quota(Fraction(0), Fact(False, reason, "of 8 GPUs default/one has 8"), refused), waits=True
    )


SITUATIONS: dict[str, tuple[Tick, dict[str, tuple[str, str]], str]] = {
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
        {"Suspended": ("False", "Stopping"), "Ready": ("False", "Stopping"), "Reconciling": ("True", "Stopping")},
        "Stopping",
    ),
    "a job that stopped": (
        a_tick(changes={"suspend": True}, pods=[]),
        {"Suspended": ("True", "Suspended"), "Ready": ("True", "Suspended"), "Reconciling": ("False", "Suspended")},
        "Suspended",
    ),
    "a job that waits for its pool": (
        a_tick(pods=[], means=of_pool("WaitingForGpus")),
        {"QuotaReserved": ("False", "WaitingForGpus"), "Ready": ("False", "WaitingForGpus")},
        "Waiting",
    ),
    "a job that gives back what its pool lent": (
        a_tick(means=of_pool("WaitingForGpus")),
        {"Ready": ("False", "WaitingForGpus"), "Reconciling": ("True", "Stopping")},
        "Stopping",
    ),
    "a job whose queue does not exist": (
        a_tick(pods=[], means=of_pool("QueueNotFound", refused=True)),
        {"QuotaReserved": ("False", "QueueNotFound"), "Stalled": ("True", "QueueNotFound")},
        "Stalled",
    ),
    "a job that cannot stop": (
        a_tick(changes={"suspend": True}, refused="deployments.apps is forbidden: not today"),
        {"Stalled": ("True", "ApplyRefused"), "Reconciling": ("False", "ApplyRefused")},
        "Stalled",
    ),
    "a completed job": (
        a_tick(ended=Ending(complete=True, message="", profiles=("whole",))),
        {"Complete": ("True", "TrainerComplete"), "Ready": ("True", "Complete"), "Reconciling": ("False", "Ended")},
        "Complete",
    ),
    "a failed job": (
        a_tick(ended=Ending(complete=False, message="BackoffLimit", profiles=("whole",))),
        {
            "Failed": ("True", "TrainerFailed"),
            "Ready": ("False", "Failed"),
            "Stalled": ("True", "TrainerFailed"),
            "Degraded": ("False", "AsExpected"),
        },
        "Failed",
    ),
}
