"""The reward server on a real NATS: from trajectories to experience, past a killed server, poison, a full buffer."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard_workers.bus import Bus
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Experience, PolicyVersion, Segment, Trajectory, TrajectoryId
from tests.pipeline import NatsServer, hurry_redelivery, job_config, nats_server
from tests.worker_process import PATIENCE_SECONDS, WorkerProcess, until, worker_process

pytestmark = pytest.mark.timeout(180)

USER_CODE = """
import os, time

def score(trajectory):
    answer = trajectory.task["answer"]
    if answer == 13:
        os._exit(1)
    time.sleep(trajectory.task.get("seconds", 0))
    return float(trajectory.meta["texts"][-1] == f"A{answer}#")
"""
SMALL = {"groupSize": 2, "promptsPerStep": 1, "maxStaleness": 0, "steps": 4}


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


@asynccontextmanager
async def scored_by(
    tmp_path: Path, nats: NatsServer, entrypoint: str = "user_reward:score", **spec: Any
) -> AsyncIterator[tuple[JobConfig, Bus]]:
    (tmp_path / "user_reward.py").write_text(USER_CODE)
    job = job_config(stages={"rewardServer": {"entrypoint": entrypoint, "drainSeconds": 30}}, **spec)
    async with Bus.connected(nats.url, job, "test") as bus:
        yield job, bus


def reward_server(job: JobConfig, tmp_path: Path, nats: NatsServer, name: str = "reward-1") -> Any:
    variables = {"PYTHONPATH": str(tmp_path), "STEELYARD_REWARD_TIMEOUT_SECONDS": "40"}
    return worker_process("steelyard_workers.reward", job, tmp_path / name, nats.url, **variables)


def trajectory(n: int, answer: int = 46, **record: Any) -> Trajectory:
    version = PolicyVersion(1, 2)
    return Trajectory(
        id=TrajectoryId(group=n // 4, k=n % 4, attempt=0),
        task={"answer": answer, **record},
        seed=n,
        outcome="ok",
        policy_first=version,
        policy_last=version,
        segments=(Segment(kind="policy", tokens=(1, 2), logprobs=(-0.5, -0.25)),),
        meta={"texts": ["A46#"]},
    )


async def give(bus: Bus, trajectories: list[Trajectory]) -> set[TrajectoryId]:
    for each in trajectories:
        await bus.put(each)
    return {each.id for each in trajectories}


async def collect(bus: Bus, count: int) -> dict[TrajectoryId, Experience]:
    found: dict[TrajectoryId, Experience] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} experiences"
        for delivery in await bus.take(Experience, 1, 0.5):
            found[delivery.id] = delivery.message
            await delivery.ack()
    return found


async def series(worker: WorkerProcess, name: str) -> float:
    return (await worker.metrics())[name]


async def test_trajectories_become_experience_with_rewards(tmp_path: Path, nats: NatsServer) -> None:
    async with scored_by(tmp_path, nats) as (job, bus):
        right, wrong = trajectory(0), trajectory(1, answer=47)
        await give(bus, [right, wrong])
        with reward_server(job, tmp_path, nats) as worker:
            found = await collect(bus, 2)
            assert (found[right.id].reward, found[wrong.id].reward) == (1.0, 0.0)
            assert found[right.id].segments == right.segments
            assert await series(worker, "steelyard_reward_count") == 2
            assert await series(worker, 'steelyard_buffer_wait_seconds_count{buffer="trajectories"}') == 2
            async with httpx.AsyncClient() as client:
                body = {"trajectories": [right.model_dump(mode="json")]}
                answer = await client.post(f"http://127.0.0.1:{worker.port}/v1/score", json=body)
            assert answer.json() == {"results": [{"reward": 1.0, "parts": {}, "error": None}]}


async def test_what_a_killed_server_held_is_scored_by_another(tmp_path: Path, nats: NatsServer) -> None:
    async with scored_by(tmp_path, nats) as (job, bus):
        want = await give(bus, [trajectory(0, seconds=5), *(trajectory(n) for n in range(1, 4))])
        with reward_server(job, tmp_path, nats) as first:
            busy = 'steelyard_stage_inflight{stage="reward-server"}'

            async def is_judging() -> bool:
                return await first.ready() and await series(first, busy) == 1

            await until("it judges", is_judging)
            first.process.kill()
        with reward_server(job, tmp_path, nats, "reward-2") as second:
            await until("the next server is there", second.ready)
            await hurry_redelivery(bus, job)
            assert (await collect(bus, 4)).keys() == want


async def test_a_draining_server_gives_the_score_it_is_at_and_leaves_the_rest(tmp_path: Path, nats: NatsServer) -> None:
    async with scored_by(tmp_path, nats) as (job, bus):
        await give(bus, [trajectory(n, seconds=2) for n in range(3)])
        with reward_server(job, tmp_path, nats) as worker:
            busy = 'steelyard_stage_inflight{stage="reward-server"}'

            async def is_judging() -> bool:
                return await worker.ready() and await series(worker, busy) == 1

            await until("it judges", is_judging)
            hook = await worker.drain()
            assert await asyncio.wait_for(hook.wait(), 30) == 0
            assert await worker.ended() == 0
        scored = await collect(bus, 1)
        with reward_server(job, tmp_path, nats, "reward-2"):
            assert len(scored | await collect(bus, 2)) == 3


async def test_poison_is_buried_with_its_reason_and_scoring_goes_on(tmp_path: Path, nats: NatsServer) -> None:
    async with scored_by(tmp_path, nats) as (job, bus):
        poison, good = trajectory(0, answer=13), trajectory(1)
        await give(bus, [poison, good])
        with reward_server(job, tmp_path, nats):
            assert (await collect(bus, 1)).keys() == {good.id}
        (letter,) = [letter async for _, letter in bus.dead_letters()]
        assert letter.id == poison.id
        assert letter.reason == "no score in 3 attempts: the reward process died with status 1"


async def test_a_full_experience_buffer_makes_the_server_wait_and_loses_nothing(
    tmp_path: Path, nats: NatsServer
) -> None:
    small: dict[str, Any] = {
        "algorithm": SMALL,
        "checkpoints": {"everySteps": 1},
        "buffer": {"maxExperience": 4},
    }
    async with scored_by(tmp_path, nats, **small) as (job, bus):
        want = await give(bus, [trajectory(n) for n in range(8)])
        with reward_server(job, tmp_path, nats) as worker:
            blocked = 'steelyard_stage_seconds_total{stage="reward-server",state="blocked"}'

            async def is_blocked() -> bool:
                return await worker.ready() and await series(worker, blocked) > 0.5

            await until("blocked", is_blocked)
            assert (await collect(bus, 8)).keys() == want


async def test_a_reward_that_does_not_import_ends_the_server_with_64_and_its_reason(
    tmp_path: Path, nats: NatsServer
) -> None:
    async with scored_by(tmp_path, nats, entrypoint="no_such_module:score") as (job, _):
        with reward_server(job, tmp_path, nats) as worker:
            assert await worker.ended() == 64
            assert worker.last_words.startswith(
                "stages.rewardServer.entrypoint 'no_such_module:score' does not import: ModuleNotFoundError"
            )
