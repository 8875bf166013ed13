"""One job under control: it starts, heals, moves, stops and ends, whenever the operator is killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steelyard.api import Allocation, Origin, Stage
from steelyard.children.common import Images
from steelyard.cluster import NotLeader, Refused, Unavailable
from steelyard.controller import Controller, Dependencies
from steelyard.telemetry import Telemetry
from tests.builders import a_revision, job_manifest
from tests.fakes import FakeCluster, Killed, NoMetrics
from tests.unit.operator.conftest import FIXED, IMAGES, KEY, Operated

RUNNING = {
    "calculator-bus": 1,
    "calculator-environment": 1,
    "calculator-reward-server-slice": 0,
    "calculator-reward-server-whole": 1,
    "calculator-sampler-slice": 0,
    "calculator-sampler-whole": 2,
    "calculator-trainer-whole": 1,
}


def fixed(**stages: dict[str, int]) -> dict[str, Any]:
    """A change of the spec to this allocation; stages are named as in the resource."""
    return {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 2}, "environment": {"default": 1}, **stages}}}


async def test_a_new_job_is_recorded_first_and_starts_from_its_bus() -> None:
    operated = Operated(FIXED)

    await operated.tick()
    assert operated.cluster.names("AllocationRevision") == ["calculator-1"]
    assert operated.cluster.replicas() == {
        name: int(name == "calculator-bus") for name in RUNNING if "trainer" not in name
    }

    await operated.run()
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


def written(operated: Operated) -> list[str]:
    """Writes to children; the ledger and the status have their own rhythm."""
    return [what for what in operated.cluster.writes if what.split()[0] in ("apply", "scale", "delete")]


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
        await operated.run(4)
        assert set(children_of(operated)) == before, f"{kind} {name} did not come back"
    assert operated.cluster.replicas() == RUNNING


async def test_a_lost_ledger_is_begun_again(operated: Operated) -> None:
    operated.cluster.delete("AllocationRevision", "calculator-1")

    await operated.run(4)

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


MOVES = {
    "more environments": fixed(environment={"default": 3}),
    "fewer samplers, more judges": fixed(sampler={"whole": 1}, rewardServer={"whole": 2}),
    "another profile": fixed(sampler={"slice": 2}),
    "another profile of the judge and more environments": fixed(rewardServer={"slice": 2}, environment={"default": 4}),
}


@pytest.mark.parametrize("move", MOVES)
async def test_a_move_ends_within_its_budget_though_pods_drain(move: str) -> None:
    operated = Operated({**FIXED, "budget.gpus": 4})
    await operated.run()
    operated.cluster.drains = True
    operated.change_spec(MOVES[move])

    for _ in range(12):
        await operated.run(2)
        operated.cluster.let_go()

    want = Allocation.model_validate(MOVES[move]["scaling"]["fixed"])
    replicas = operated.cluster.replicas()
    for stage, profile, n in want.entries():
        name = "calculator-environment" if stage is Stage.ENVIRONMENT else f"calculator-{stage}-{profile}"
        assert replicas[name] == n
    assert max(operated.cluster.gpus) <= 4


async def test_an_operator_killed_at_any_write_finishes_the_same_move_once() -> None:
    """Ledger first: the second operator finds the record and does the rest of it."""
    for writes in range(40):
        operated = Operated(FIXED)
        await operated.run()
        operated.change_spec(fixed(sampler={"slice": 2}))
        operated.cluster.dies_after = writes
        try:
            await operated.run(8)
            died = False
        except Killed:
            died = True
        operated.restart()
        await operated.run(12)

        assert operated.cluster.names("AllocationRevision") == ["calculator-1", "calculator-2"]
        assert operated.cluster.replicas() == {**RUNNING, "calculator-sampler-whole": 0, "calculator-sampler-slice": 2}
        if not died:
            assert writes > 5
            return
    raise AssertionError("the move takes more writes than expected")


async def test_a_job_is_suspended_from_the_environment_to_the_bus_and_keeps_its_claims(operated: Operated) -> None:
    operated.cluster.drains = True
    operated.change_spec({"suspend": True})
    stopped: list[str] = []

    for _ in range(12):
        before = operated.cluster.replicas()
        await operated.run(1)
        after = operated.cluster.replicas()
        stopped += [name for name, n in before.items() if n and not after.get(name)]
        assert operated.condition("Suspended")[0] == ("True" if not operated.cluster.pods() else "False")
        operated.cluster.let_go()

    assert stopped == [
        "calculator-environment",
        "calculator-reward-server-whole",
        "calculator-sampler-whole",
        "calculator-trainer-whole",
        "calculator-bus",
    ]
    assert operated.condition("Suspended")[0] == "True"
    assert operated.status["phase"] == "Suspended"
    assert len(operated.cluster.names("PersistentVolumeClaim")) == 3


async def test_a_resumed_job_starts_its_bus_first(operated: Operated) -> None:
    operated.change_spec({"suspend": True})
    await operated.run(12)
    operated.change_spec({"suspend": False})

    await operated.tick()
    assert {name for name, n in operated.cluster.replicas().items() if n} == {"calculator-bus"}

    await operated.run(4)
    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Ready")[0] == "True"


async def test_a_completed_job_keeps_its_trainer_and_claims_and_nothing_else(operated: Operated) -> None:
    operated.cluster.end_trainer("Complete", '{"complete": true, "step": 200}')

    await operated.run(4)

    assert operated.cluster.replicas() == {"calculator-trainer-whole": 1}
    assert operated.condition("Complete")[:2] == ("True", "TrainerComplete")
    assert operated.status["phase"] == "Complete"
    assert operated.status["training"]["step"] == 200
    operated.cluster.delete("Job", "calculator-trainer-whole")
    operated.cluster.delete("AllocationRevision", "calculator-1")
    await operated.run(4)
    assert operated.cluster.replicas() == {}
    assert operated.condition("Complete")[0] == "True"


async def test_a_trainer_that_only_the_user_can_help_fails_the_job_in_its_own_words(operated: Operated) -> None:
    operated.cluster.end_trainer("Failed", "tasks: /tasks holds no *.jsonl file")

    await operated.run(4)

    assert operated.condition("Failed") == ("True", "TrainerFailed", "tasks: /tasks holds no *.jsonl file")
    assert operated.condition("Stalled")[0] == "True"
    assert set(operated.cluster.replicas()) == {"calculator-trainer-whole"}


async def test_a_failed_job_starts_again_when_its_spec_is_mended(operated: Operated) -> None:
    operated.cluster.end_trainer("Failed", "checkpoint of another model")
    await operated.run(4)

    operated.change_spec({"algorithm": {"args": {"learningRate": "1e-5"}}})
    await operated.run(8)

    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Failed")[0] == "False"


async def test_a_job_that_becomes_invalid_says_so_and_is_left_running(operated: Operated) -> None:
    operated.change_spec({"buffer": {"maxExperience": 1}})

    await operated.run(3)

    status, reason, message = operated.condition("Stalled")
    assert (status, reason) == ("True", "InvalidSpec")
    assert "maxExperience 1 must be at least" in message
    assert operated.condition("Ready")[0] == "True"
    assert operated.cluster.replicas() == RUNNING


async def test_what_the_api_server_refuses_becomes_a_condition() -> None:
    """kubeflow/trainer#2351: a child that cannot be created must not leave the status empty."""
    operated = Operated(FIXED)
    operated.cluster.refuses = Refused("pods are forbidden: exceeded quota")

    await operated.tick()

    assert operated.condition("Degraded") == ("True", "ApplyRefused", "pods are forbidden: exceeded quota")
    assert operated.condition("Stalled")[0] == "True"


async def test_an_autoscaled_child_is_a_conflict_and_its_replicas_are_left_alone(operated: Operated) -> None:
    """kedacore/keda#3087: two controllers scale one target."""
    target = {"kind": "Deployment", "name": "calculator-environment"}
    autoscaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}, "spec": {"scaleTargetRef": target}}
    operated.cluster.create(autoscaler)
    operated.cluster.edit("Deployment", "calculator-environment", {"spec": {"replicas": 7}}, by="autoscaler")

    await operated.run(4)

    assert operated.cluster.replicas()["calculator-environment"] == 7
    status, reason, message = operated.condition("Conflict")
    assert (status, reason) == ("True", "ReplicasOwnedElsewhere")
    assert "calculator-environment" in message
    operated.cluster.delete("HorizontalPodAutoscaler", "mine")
    await operated.run(4)
    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Conflict")[0] == "False"


async def test_replicas_that_an_autoscaler_had_first_are_never_written() -> None:
    operated = Operated(FIXED)
    target = {"kind": "Deployment", "name": "calculator-environment"}
    autoscaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}, "spec": {"scaleTargetRef": target}}
    operated.cluster.create(autoscaler)

    await operated.run(4)

    assert "replicas" not in operated.cluster.get("Deployment", "calculator-environment")["spec"]


async def test_a_new_operator_leaves_the_images_of_a_running_job_until_it_resumes(operated: Operated) -> None:
    operated.images = Images({role: image.replace(":1", ":2") for role, image in IMAGES.by_role.items()})
    operated.cluster.writes.clear()
    operated.restart()
    await operated.run(4)
    assert written(operated) == []

    operated.change_spec(fixed(sampler={"whole": 2, "slice": 1}))
    await operated.run(4)
    assert images(operated) == {
        "example/sampler:1",
        "example/environment:1",
        "example/reward-server:1",
        "example/trainer:1",
    }

    operated.change_spec({"suspend": True})
    await operated.run(12)
    operated.change_spec({"suspend": False})
    await operated.run(8)
    assert images(operated) == {
        "example/sampler:2",
        "example/environment:2",
        "example/reward-server:2",
        "example/trainer:2",
    }


def images(operated: Operated) -> set[str]:
    pods = [pod for pod in operated.cluster.pods() if pod["metadata"]["labels"]["steelyard.dev/stage"] != "bus"]
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


async def test_a_users_revision_is_applied_and_held() -> None:
    operated = Operated({"scaling.mode": "Dynamic"})
    await operated.run()
    start = operated.job._cluster.view(KEY)
    assert start is not None
    after = start.revisions[0].spec.allocation.after.replace(Stage.SAMPLER, {"whole": 3})
    mine = a_revision(2, after, before=start.revisions[0].spec.allocation.after, origin=Origin.USER, reason="by hand")
    operated.cluster.create(mine.to_dict())

    await operated.run(8)

    assert operated.cluster.replicas()["calculator-sampler-whole"] == 3
    assert operated.status["activeRevision"] == "calculator-2"


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


async def test_a_deleted_job_is_forgotten() -> None:
    cluster = FakeCluster()
    controller = Controller(Dependencies(cluster, NoMetrics(), IMAGES, Telemetry(), lambda: cluster.now))
    cluster.store.on_change = controller.wake
    cluster.create(job_manifest(FIXED))
    for _ in range(10):
        await asyncio.sleep(0.02)
        cluster.settle()
    assert controller.jobs == 1

    cluster.delete("AgenticRLJob", "calculator")
    await asyncio.sleep(0.2)

    assert controller.jobs == 0
    assert [name for kind, _, name in cluster.objects if kind != "Pod"] == ["calculator-checkpoints"]


async def test_what_the_ledger_holds_already_wins_over_what_this_operator_decided(operated: Operated) -> None:
    """The record of an earlier operator whose event was lost: its number is taken, so its move is made."""
    start = operated.cluster.get("AllocationRevision", "calculator-1")["spec"]["allocation"]["after"]
    theirs = a_revision(2, Allocation.model_validate({**start, "sampler": {"whole": 3}})).to_dict()
    theirs["metadata"] |= {"uid": "theirs", "resourceVersion": "1", "namespace": "default"}
    operated.cluster.objects["AllocationRevision", "default", "calculator-2"] = theirs

    operated.change_spec(fixed(sampler={"whole": 1}))
    await operated.tick()

    assert operated.cluster.replicas()["calculator-sampler-whole"] == 3
