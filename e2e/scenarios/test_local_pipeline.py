"""The whole pipeline as local processes, without a cluster: it learns, whichever part is killed on the way."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from e2e import checker
from e2e.evaluate import held_out_accuracy
from e2e.kube import wait_for
from e2e.local import TINY, Pipeline, job_json, pipeline
from steelyard.cli.tracing.story import Share, stories
from steelyard_workers.spans import read

STEPS = 28
MAX_STALENESS = 2
START_SECONDS = 300
STEP_SECONDS = 200
KILLS = ("environment", "trainer", "reward", "bus", "sampler-0")

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Pipeline]:
    """Bus, trainer, environment, reward server and two samplers, all ready."""
    with pipeline(tmp_path, job_json(algorithm={"steps": STEPS}), samplers=2) as parts:
        workers = ("trainer", "environment", "reward", "sampler-0", "sampler-1")
        parts.start("bus", *workers)
        for name in workers:
            parts.wait_until_ready(name, START_SECONDS)
        yield parts


def step(parts: Pipeline) -> int:
    """The step of the newest published weights."""
    names = [tuple(map(int, path.name.split("."))) for path in parts.weights.iterdir() if path.name[-1].isdecimal()]
    return max(names)[1]


def wait_for_steps(parts: Pipeline, more: int) -> None:
    target = step(parts) + more
    wait_for(f"step {target}:\n{parts['trainer'].tail()}", lambda: step(parts) >= target, STEP_SECONDS * more)


def rewards(parts: Pipeline) -> list[float]:
    """Mean reward of each step, as TensorBoard shows it."""
    events = EventAccumulator(str(parts.checkpoints / "tensorboard"))
    events.Reload()
    return [event.value for event in events.Scalars("reward_mean")]


def test_it_learns_while_each_part_is_killed_in_turn_and_no_sample_is_lost_or_doubled(parts: Pipeline) -> None:
    for name in KILLS:
        wait_for_steps(parts, 3)
        parts[name].kill()
        parts.start(name)
    assert parts["trainer"].wait(STEP_SECONDS * STEPS) == 0
    assert json.loads(parts.termination("trainer")) == {"complete": True, "step": STEPS}

    found = asyncio.run(checker.check(parts.nats_url, parts.job["name"], parts.checkpoints))
    assert found.ok, found
    assert found.trained + found.closed_untrained == STEPS * 16 * 8

    window = asyncio.run(read(parts.nats_url, parts.job["name"], None, None, 100_000))
    trained = [story for story in stories(window.spans) if story.outcome == "trained"]
    assert len({story.note("train", "step") for story in trained}) > STEPS / 2, "spans are lost only while the bus is"
    assert all(0 <= int(str(story.note("train", "staleness"))) <= MAX_STALENESS for story in trained)
    assert {share for story in trained for share in story.shares} == set(Share), "every wait and every work was seen"

    means = rewards(parts)
    assert len(means) == STEPS
    assert sum(means[-5:]) / 5 >= sum(means[:5]) / 5 + 0.2, means
    head = checker.newest(parts.checkpoints)
    assert head is not None
    assert held_out_accuracy(parts.checkpoints / head) >= held_out_accuracy(TINY) + 0.2
