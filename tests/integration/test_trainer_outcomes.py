"""Trajectories that come to nothing, and mistakes of the user: said, counted, never a crash loop without a reason."""

import json
from pathlib import Path

from e2e.local import Pipeline
from steelyard_workers.messages import PolicyVersion, Segment, Task, Trajectory
from tests.integration.small_policy import small_model
from tests.integration.trainer_job import STEPS, assert_exact, findings, parts, small_job
from tests.integration.trainer_process import TrainerProcess, answer, stages_before

__all__ = ["parts"]


def with_failures(task: Task, version: PolicyVersion) -> Trajectory:
    """Group 1 fails whole; of group 2 one member times out, and one speaks a token that the model does not know."""
    good = answer(task, version)
    group, k = task.id.member
    if group == 1 or (group, k) == (2, 0):
        return Trajectory(**dict(task), outcome="failed" if group == 1 else "timeout")
    if (group, k) == (3, 0):
        return good.model_copy(update={"segments": (Segment(kind="policy", tokens=(99,), logprobs=(-1.0,)),)})
    return good


async def test_groups_without_enough_good_trajectories_are_given_up_with_a_reason_and_training_goes_on(
    parts: Pipeline,
) -> None:
    async with stages_before(parts, with_failures) as bus:
        await TrainerProcess(parts).completed()
        await assert_exact(parts)
        letters = {str(letter.id): letter.reason async for _, letter in bus.dead_letters()}
    few = "has fewer than 2 trajectories to learn from"
    assert letters == {
        "1/0/0": f"group 1 {few}; this one: failed",
        "1/1/0": f"group 1 {few}; this one: failed",
        "2/0/0": f"group 2 {few}; this one: timeout",
        "2/1/0": f"group 2 {few}; this one: ok",
        "3/0/0": "token 99, the model's vocabulary ends at 31",
        "3/1/0": f"group 3 {few}; this one: ok",
    }


async def test_a_malformed_data_set_ends_the_trainer_with_its_file_and_line(parts: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "tasks" / "tasks.jsonl").write_text('{"prompt": "1"}\n{"prompt": \n')
    assert await TrainerProcess(parts).ended() == 64
    assert "tasks.jsonl line 2: not JSON" in parts.termination("trainer")


async def test_an_unknown_argument_ends_the_trainer_with_its_name(parts: Pipeline) -> None:
    (parts.folder / "job.json").write_text(json.dumps(small_job(args={"learningrate": "1"})))
    assert await TrainerProcess(parts).ended() == 64
    assert parts.termination("trainer").startswith("spec.algorithm.args.learningrate: Extra inputs")


async def test_a_checkpoint_of_another_model_ends_the_trainer_and_says_how_they_differ(
    parts: Pipeline, tmp_path: Path
) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
    small_model(tmp_path / "model", hidden=32)
    assert await TrainerProcess(parts).ended() == 64
    words = parts.termination("trainer")
    assert "is of another model: hidden_size 16 instead of 32" in words
    small_model(tmp_path / "model", hidden=16)
    await TrainerProcess(parts).completed()


async def test_a_head_that_names_a_lost_checkpoint_is_said_and_not_trained_over(parts: Pipeline) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
    parts.checkpoints.rename(parts.folder / "lost")
    assert await TrainerProcess(parts).ended() == 64
    assert "No such file or directory; the bus names it as the job's state" in parts.termination("trainer")


async def test_a_finished_job_that_is_started_again_is_still_finished(parts: Pipeline) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
        before = await findings(parts)
        await TrainerProcess(parts).completed()
        assert (await findings(parts)).trained == before.trained


async def test_a_finished_job_goes_on_when_its_run_is_made_longer_and_ends_where_it_is_when_made_shorter(
    parts: Pipeline,
) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
        for steps in (STEPS + 2, STEPS - 2):
            (parts.folder / "job.json").write_text(json.dumps(small_job(steps=steps)))
            await TrainerProcess(parts).completed()
            assert (await findings(parts)).step == STEPS + 2
            assert json.loads(parts.termination("trainer")) == {"complete": True, "step": STEPS + 2}


async def test_only_the_newest_checkpoints_and_weights_are_kept_whole(parts: Pipeline) -> None:
    async with stages_before(parts):
        await TrainerProcess(parts).completed()
    whole = sorted(path.parent.name for path in parts.checkpoints.glob("*/model.safetensors"))
    assert whole == ["1.4", "1.6"]
    assert sorted(path.parent.name for path in parts.checkpoints.glob("*/ledger.json")) == ["1.2", "1.4", "1.6"]
    assert sorted(path.name for path in parts.weights.iterdir()) == ["1.4", "1.5", "1.6"], "maxStaleness + 2"
    assert {path.name for path in (parts.weights / "1.6").iterdir()} >= {
        "model.safetensors",
        "config.json",
        "canary.json",
    }
