"""The trainer dies at every point where something was stored and something else was not; nothing is lost or doubled."""

import asyncio
import signal

import pytest

from e2e.kube import wait_for
from e2e.local import Pipeline
from steelyard_workers import bus_streams
from steelyard_workers.messages import PolicyVersion, Task, Trajectory
from tests.integration.trainer_job import SIZE, STEPS, assert_exact, findings, parts
from tests.integration.trainer_process import Doom, TrainerProcess, acknowledge_early, answer, stages_before

__all__ = ["parts"]

pytestmark = pytest.mark.timeout(180)  # the first trainer waits until torch is imported

TRAINER = "steelyard_workers.trainer"

KILL_POINTS = {
    "claimed the epoch, told nobody": Doom("steelyard_workers.bus_keys:Keys.advance", 1, "before"),
    "wrote the weights, the pointer still names the old ones": Doom(f"{TRAINER}.weights:Weights._write", 3),
    "moved the pointer, fed nothing": Doom("steelyard_workers.bus_keys:Keys.advance", 2),
    "recalled what the last trainer held": Doom(f"{TRAINER}.feeder:Feeder.restore", 1, "before"),
    "fed half a group": Doom("steelyard_workers.bus:Bus.put", 3),
    "fed a group, did not record it": Doom(f"{TRAINER}.feeder:Feeder._record", 3, "before"),
    "recorded a group": Doom(f"{TRAINER}.feeder:Feeder._record", 3),
    "took groups for the first step": Doom(f"{TRAINER}.policy:Policy.update", 1, "before"),
    "updated the weights between two commits": Doom(f"{TRAINER}.policy:Policy.update", 3),
    "published weights between two commits": Doom(f"{TRAINER}.loop:Loop._publish", 3),
    "wrote half a checkpoint": Doom("torch:save", 1, "before"),
    "wrote a checkpoint, did not commit it": Doom(f"{TRAINER}.head:Head.commit", 1, "before"),
    "wrote the second checkpoint, did not commit it": Doom(f"{TRAINER}.head:Head.commit", 2, "before"),
    "committed, acknowledged nothing": Doom(f"{TRAINER}.head:Head.commit", 1),
    "acknowledged a part": Doom("steelyard_workers.bus:Delivery.ack", 3),
    "acknowledged, did not tidy up": Doom(f"{TRAINER}.checkpoint:Checkpoints.tidy", 1, "before"),
    "committed the last step, did not say so": Doom(f"{TRAINER}.head:Head.commit", 3),
}


def sometimes_stale(task: Task, version: PolicyVersion) -> Trajectory:
    """The first attempt of every third group claims to be of the very first policy."""
    is_old = task.id.group % 3 == 2 and task.id.attempt == 0
    return answer(task, PolicyVersion(1, 0) if is_old else version)


@pytest.mark.parametrize("doom", KILL_POINTS.values(), ids=KILL_POINTS.keys())
async def test_every_sample_is_trained_once_although_the_trainer_died_when_it_had(doom: Doom, parts: Pipeline) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts, doom).died()
        assert (await findings(parts)).ok
        await TrainerProcess(parts).completed()
        await assert_exact(parts)


async def test_a_requeued_sample_survives_a_death_between_its_new_task_and_the_end_of_its_old_outcome(
    parts: Pipeline,
) -> None:
    doom = Doom("steelyard_workers.bus:Bus.put", 1, argument="attempt=1")
    async with stages_before(parts, sometimes_stale):
        await TrainerProcess(parts, doom).died()
        assert (await findings(parts)).ok
        await TrainerProcess(parts).completed()
        await assert_exact(parts)


async def test_the_checker_catches_a_trainer_that_acknowledges_before_its_commit(parts: Pipeline) -> None:
    async with stages_before(parts):
        doom = Doom(f"{TRAINER}.head:Head.commit", 1, "before")
        await TrainerProcess(parts, doom, acknowledge_early).died()
        while_dead = await findings(parts)
        assert len(while_dead.lost) == 2 * 2 * SIZE, "both steps since the start"
        await TrainerProcess(parts).completed()
        at_the_end = await findings(parts)
        assert (at_the_end.lost, at_the_end.step) == (while_dead.lost, STEPS), "fed again, but not forgotten"


async def test_a_trainer_that_dies_again_and_again_still_ends(parts: Pipeline) -> None:
    async with stages_before(parts, sometimes_stale):
        for update in (1, 3, 2, 3):
            await TrainerProcess(parts, Doom(f"{TRAINER}.policy:Policy.update", update)).died()
        await TrainerProcess(parts).completed()
        await assert_exact(parts)


def never_delivered_again() -> None:
    """What a trainer holds stays with it, unless it is recalled."""
    bus_streams.ACK_WAIT_SECONDS = 3600


async def test_a_frozen_trainer_that_wakes_up_after_another_took_over_changes_nothing(
    parts: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen with a pull open, it receives what the other one recalls: that is recalled once more."""
    monkeypatch.setattr(bus_streams, "ACK_WAIT_SECONDS", 3600)
    async with stages_before(parts):
        freeze = Doom(f"{TRAINER}.head:Head.commit", 1, "before", act=signal.SIGSTOP)
        zombie = TrainerProcess(parts, freeze, never_delivered_again)
        await asyncio.to_thread(wait_for, "the trainer to freeze", lambda: zombie.is_stopped, 40, 0.05)
        await TrainerProcess(parts, mutation=never_delivered_again).completed()
        at_the_end = await findings(parts)
        zombie.signal(signal.SIGCONT)
        assert await zombie.ended() == 75
        assert await findings(parts) == at_the_end
        await assert_exact(parts)


async def test_the_bus_dies_while_the_trainer_works(parts: Pipeline) -> None:
    async with stages_before(parts, pace_seconds=0.2):  # 24 trajectories at this pace outlive the kills
        trainer = TrainerProcess(parts)
        for _ in range(3):
            await asyncio.sleep(1.5)
            assert trainer.runs
            await asyncio.to_thread(parts["bus"].kill)
            await asyncio.to_thread(parts.start, "bus")
        await trainer.completed()
        await assert_exact(parts)


async def test_a_bus_that_lost_its_volume_is_filled_again_from_the_last_checkpoint(parts: Pipeline) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts, Doom(f"{TRAINER}.policy:Policy.update", 4)).died()
    parts["bus"].kill()
    (parts.folder / "bus").rename(parts.folder / "lost-volume")
    parts.start("bus")
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
        await assert_exact(parts)


async def test_a_stopped_trainer_commits_what_it_has_and_the_next_goes_on_from_there(parts: Pipeline) -> None:
    async with stages_before(parts):
        trainer = TrainerProcess(parts, Doom(f"{TRAINER}.policy:Policy.update", 3, act=signal.SIGTERM))
        assert await trainer.ended() == 75
        found = await findings(parts)
        assert (found.ok, found.step) == (True, 3)
        assert parts.termination("trainer") == ""
        await TrainerProcess(parts).completed()
        await assert_exact(parts)
