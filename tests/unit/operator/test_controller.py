"""One job under control: it starts from nothing, heals whatever is touched, and rests when there is nothing to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steelyard.cluster.errors import NotLeader, Unavailable
from steelyard.controller import Controller, Dependencies
from steelyard.telemetry import Telemetry
from tests.builders import job_manifest
from tests.fakes import FakeCluster, NoMetrics
from tests.unit.operator.operating import FIXED, IMAGES, RUNNING, Operated, written


async def test_a_new_job_is_recorded_first_and_starts_from_its_bus() -> None:
    operated = Operated(FIXED)

    await operated.tick()
    assert operated.cluster.names("AllocationRevision") == ["calculator-1"]
    assert operated.cluster.replicas() == {
        name: int(name == "calculator-bus") for name in RUNNING if "trainer" not in name
    }

    await operated.settle()
    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Ready")[:2] == ("True", "ReplicasReady")
    assert operated.status["phase"] == "Running"


async def test_a_job_that_needs_nothing_causes_no_write(operated: Operated) -> None:
    operated.cluster.writes.clear()

    await operated.run(10, seconds=15.0)

    assert written(operated) == []


async def test_an_operator_without_memory_finds_nothing_to_do(operated: Operated) -> None:
    operated.cluster.writes.clear()

    operated.restart()
    await operated.run(3)

    assert operated.cluster.writes == []


def children_of(operated: Operated) -> list[tuple[str, str]]:
    return [
        (kind, name)
        for kind, _, name in operated.cluster.objects
        if kind not in ("AgenticRLJob", "Pod", "AllocationRevision")
    ]


async def test_whatever_is_deleted_comes_back(operated: Operated) -> None:
    """Level, not edge: nothing tells the operator which event was lost."""
    before = set(children_of(operated))

    for kind, name in sorted(before):
        operated.cluster.delete(kind, name)
        await operated.settle()
        assert set(children_of(operated)) == before, f"{kind} {name} did not come back"
    assert operated.cluster.replicas() == RUNNING


async def test_a_lost_ledger_is_begun_again(operated: Operated) -> None:
    operated.cluster.delete("AllocationRevision", "calculator-1")

    await operated.settle()

    assert operated.cluster.names("AllocationRevision") == ["calculator-1"]
    assert operated.cluster.replicas() == RUNNING


async def test_a_child_that_somebody_edits_is_repaired_and_the_event_says_who(operated: Operated) -> None:
    """ai-dynamo/dynamo#4420: a child edited by hand while the planner believes it is at its target."""
    operated.cluster.now += 60
    operated.cluster.edit("Deployment", "calculator-sampler-whole", {"spec": {"replicas": 6}}, by="kubectl-scale")

    await operated.run(3)

    assert operated.cluster.replicas() == RUNNING
    (told,) = [event for event in operated.cluster.events if event.reason == "DriftRepaired"]
    assert told.message == "kubectl-scale changed Deployment calculator-sampler-whole; it was applied again"


async def test_a_field_that_is_not_ours_is_looked_at_once(operated: Operated) -> None:
    operated.cluster.now += 60
    operated.cluster.edit("Deployment", "calculator-sampler-whole", {"spec": {"minReadySeconds": 3}})
    await operated.run(2)
    assert written(operated)[-1] == "apply Deployment calculator-sampler-whole"
    operated.cluster.writes.clear()

    await operated.run(10)

    assert written(operated) == []


async def test_an_autoscaled_child_is_a_conflict_and_its_replicas_are_left_alone(operated: Operated) -> None:
    """kedacore/keda#3087: two controllers scale one target."""
    target = {"kind": "Deployment", "name": "calculator-environment"}
    autoscaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}, "spec": {"scaleTargetRef": target}}
    operated.cluster.create(autoscaler)
    operated.cluster.edit("Deployment", "calculator-environment", {"spec": {"replicas": 7}}, by="autoscaler")

    await operated.settle()

    assert operated.cluster.replicas()["calculator-environment"] == 7
    status, reason, message = operated.condition("Conflict")
    assert (status, reason) == ("True", "ReplicasOwnedElsewhere")
    assert "calculator-environment" in message
    operated.cluster.delete("HorizontalPodAutoscaler", "mine")
    await operated.settle()
    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Conflict")[0] == "False"


async def test_replicas_that_an_autoscaler_had_first_are_never_written() -> None:
    operated = Operated(FIXED)
    target = {"kind": "Deployment", "name": "calculator-environment"}
    autoscaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}, "spec": {"scaleTargetRef": target}}
    operated.cluster.create(autoscaler)

    await operated.settle()

    assert "replicas" not in operated.cluster.get("Deployment", "calculator-environment")["spec"]


class Broken(NoMetrics):
    """Metrics that raise what the test wants for one job."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self.error = name, error

    async def read(self, job: Any, pods: Any, now: float, window_seconds: float = 60.0) -> Any:
        if job.metadata.name == self.name:
            raise self.error
        return await super().read(job, pods, now, window_seconds)


ERRORS = {
    "a bug": (ZeroDivisionError("division by zero"), "bug", 1),
    "an API server that is away": (Unavailable("no answer"), "retried", 0),
    "a Lease that somebody else holds": (NotLeader("not ours"), "not-leader", 0),
}


@pytest.mark.looptime
@pytest.mark.parametrize("error", ERRORS)
async def test_what_goes_wrong_in_one_job_stays_there(error: str) -> None:
    raised, counted, events = ERRORS[error]
    cluster, telemetry = FakeCluster(), Telemetry()
    deps = Dependencies(cluster, Broken("broken", raised), IMAGES, telemetry, lambda: cluster.now)
    controller = Controller(deps)
    cluster.store.on_change = controller.wake

    cluster.create(job_manifest(name="broken"))
    cluster.create(job_manifest(name="healthy"))
    for _ in range(20):
        await asyncio.sleep(0.02)
        cluster.settle()

    assert cluster.replicas()["healthy-trainer-whole"] == 1
    assert not [name for name in cluster.replicas() if name.startswith("broken")]
    assert telemetry.registry.get_sample_value("steelyard_operator_ticks_total", {"result": counted}) == 1
    assert len([event for event in cluster.events if event.reason == "OperatorError"]) == events
    await controller.stop()


@pytest.mark.looptime
async def test_a_job_is_not_given_up_however_long_it_fails() -> None:
    """After seventeen hours the pause, doubled each time, was a number too large for the machine."""
    cluster, telemetry = FakeCluster(), Telemetry()
    deps = Dependencies(cluster, Broken("calculator", Unavailable("no")), IMAGES, telemetry, lambda: cluster.now)
    controller = Controller(deps)
    cluster.store.on_change = controller.wake
    cluster.create(job_manifest())

    await asyncio.sleep(24 * 3600)

    assert len(controller) == 1
    rounds = telemetry.registry.get_sample_value("steelyard_operator_ticks_total", {"result": "retried"})
    assert rounds is not None
    assert 24 * 60 <= rounds <= 24 * 60 + 10
    await controller.stop()


@pytest.mark.looptime
async def test_a_deleted_job_is_forgotten() -> None:
    cluster = FakeCluster()
    controller = Controller(Dependencies(cluster, NoMetrics(), IMAGES, Telemetry(), lambda: cluster.now))
    cluster.store.on_change = controller.wake
    cluster.create(job_manifest(FIXED))
    for _ in range(10):
        await asyncio.sleep(0.02)
        cluster.settle()
    assert len(controller) == 1

    cluster.delete("AgenticRLJob", "calculator")
    await asyncio.sleep(0.2)

    assert len(controller) == 0
    assert [name for kind, _, name in cluster.objects if kind != "Pod"] == ["calculator-checkpoints"]
