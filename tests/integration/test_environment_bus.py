"""The environment on a real NATS: a task's way to its trajectory, through a killed worker, a drain and bad code.

The sampler is played by a small HTTP server that always writes the right sum, after a moment.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from nats import connect
from nats.js.errors import NotFoundError

from steelyard_workers.bus import Bus
from steelyard_workers.bus_streams import ACK_WAIT_SECONDS
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Task, Trajectory, TrajectoryId
from steelyard_workers.sampler_protocol import VERSION_HEADER
from steelyard_workers.serve import serving
from tests.pipeline import NatsServer, hurry_redelivery, job_config, nats_server
from tests.unit.workers.fakes import tokenizer
from tests.worker_process import PATIENCE_SECONDS, WorkerProcess, until, worker_process

pytestmark = pytest.mark.timeout(180)
EPISODE = {"timeoutSeconds": 60, "toolTimeoutSeconds": 30}


@dataclass
class FakeSampler:
    """Plays the policy and the sampler; `seconds` is how long it writes."""

    seconds: float = 0.02
    requests: list[dict[str, object]] = field(default_factory=list)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/completions")
        async def completions(request: Request) -> JSONResponse:
            body = await request.json()
            self.requests.append(body)
            await asyncio.sleep(self.seconds)
            text = self._goes_on(tokenizer().decode(body["prompt"]))
            tokens = tokenizer().encode(text)
            choice = {
                "token_ids": tokens,
                "logprobs": {"token_logprobs": [-0.1] * len(tokens)},
                "finish_reason": "stop",
            }
            return JSONResponse({"choices": [choice]}, headers={VERSION_HEADER: "1.3"})

        return app

    def _goes_on(self, text: str) -> str:
        result = re.search(r"R(\d+);$", text)
        if result:
            return f"A{result[1]}#"
        question = re.fullmatch(r"Q(\d+)\+(\d+)=", text)
        assert question, text
        return f"C{question[1]}+{question[2]}>"


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture(autouse=True)
def _model(tmp_path: Path) -> None:
    """A model folder with nothing but a tokenizer."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text(tokenizer()._backend.to_str())


class Pipeline:
    """A job on the bus with its environment processes."""

    def __init__(self, job: JobConfig, folder: Path, nats: NatsServer, sampler_address: str) -> None:
        self.job, self._folder, self._nats, self._sampler_address = job, folder, nats, sampler_address
        self._count = 0

    @contextmanager
    def worker(self) -> Iterator[WorkerProcess]:
        self._count += 1
        with worker_process(
            "steelyard_workers.environment",
            self.job,
            self._folder / f"worker-{self._count}",
            self._nats.url,
            SAMPLER_HOST=self._sampler_address,
            STEELYARD_MODEL=str(self._folder / "model"),
        ) as worker:
            yield worker


@asynccontextmanager
async def pipeline(
    tmp_path: Path, nats: NatsServer, sampler: FakeSampler, **environment: object
) -> AsyncIterator[tuple[Pipeline, Bus]]:
    stages = {"environment": {"concurrency": 4, "episode": EPISODE, "drainSeconds": 30, **environment}}
    job = job_config(stages=stages)
    async with serving(sampler.app(), 0, "127.0.0.1") as port, Bus.connected(nats.url, job, "trainer") as bus:
        yield Pipeline(job, tmp_path, nats, f"127.0.0.1:{port}"), bus


def sums(count: int) -> list[Task]:
    return [
        Task(
            id=TrajectoryId(group=n // 4, k=n % 4, attempt=0),
            task={"prompt": f"Q{n}+{n}=", "answer": 2 * n},
            seed=n,
        )
        for n in range(count)
    ]


async def collect(bus: Bus, count: int) -> dict[TrajectoryId, Trajectory]:
    """The next `count` different trajectories."""
    found: dict[TrajectoryId, Trajectory] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} trajectories"
        for delivery in await bus.take(Trajectory, 1, 0.5):
            found[delivery.id] = delivery.message
            await delivery.ack()
    return found


async def give(bus: Bus, tasks: list[Task]) -> set[TrajectoryId]:
    for task in tasks:
        await bus.put(task)
    return {task.id for task in tasks}


async def spans(nats: NatsServer, id_: TrajectoryId) -> list[dict[str, object]]:
    client = await connect(nats.url)
    try:
        subject = f"spans.calculator.{id_.group}.{id_.k}.{id_.attempt}"
        found: list[dict[str, object]] = []
        after = 0
        while True:
            try:
                message = await client.jetstream().get_msg("SPANS", seq=after + 1, subject=subject, next=True)
            except NotFoundError:
                return found
            after = message.seq or after + 1
            found.extend(json.loads(message.data or b""))
    finally:
        await client.close()


async def test_tasks_become_trajectories_that_can_be_measured_and_followed(tmp_path: Path, nats: NatsServer) -> None:
    async with pipeline(tmp_path, nats, FakeSampler(), args={"toolSeconds": "0.05"}) as (job, bus):
        tasks = sums(12)
        want = await give(bus, tasks)
        with job.worker() as worker:
            found = await collect(bus, 12)
            assert found.keys() == want
            for task in tasks:
                trajectory = found[task.id]
                answer = task.task["answer"]
                assert trajectory.meta["texts"][-1] == f"A{answer}#"
                assert (trajectory.outcome, trajectory.task, trajectory.seed) == ("ok", task.task, task.seed)
            seen = await worker.metrics()
        stage = 'stage="environment"'
        seconds = {name: value for name, value in seen.items() if name.startswith("steelyard_stage_seconds_total")}
        assert seen[f"steelyard_stage_slots{{{stage}}}"] == 4
        assert seen[f'steelyard_stage_units_total{{outcome="ok",{stage}}}'] == 12
        assert seen['steelyard_buffer_wait_seconds_count{buffer="tasks"}'] == 12
        assert seen['steelyard_tool_seconds_count{outcome="ok",tool="calculator"}'] == 12
        assert all(seconds[f'steelyard_stage_seconds_total{{{stage},state="{s}"}}'] > 0 for s in ("tool", "tokens"))
        record = await spans(nats, tasks[5].id)
        assert sorted(str(span["name"]) for span in record) == ["episode", "generate", "generate", "tool"]
        assert {span["pod"] for span in record} == {"worker-1"}
        assert len({span["traceId"] for span in record}) == 1
        (episode,) = (span for span in record if span["name"] == "episode")
        assert (episode["trajectory"], episode["seed"], episode["policy_first"]) == ("1/1/0", 5, "1.3")
        assert float(str(episode["queued_seconds"])) >= 0


async def test_the_tasks_of_a_killed_worker_are_played_by_another(tmp_path: Path, nats: NatsServer) -> None:
    """PrimeIntellect-ai/prime-rl#1816: an environment that crashes loses no pending task."""
    sampler = FakeSampler(seconds=30)
    async with pipeline(tmp_path, nats, sampler) as (job, bus):
        want = await give(bus, sums(6))
        with job.worker() as first:
            await until("four episodes run", lambda: len(sampler.requests) >= 4)
            first.process.kill()
        sampler.seconds = 0.01
        with job.worker() as second:
            await until("the next worker is there", second.ready)
            await hurry_redelivery(bus, job.job)
            assert (await collect(bus, 6)).keys() == want


async def test_a_draining_worker_finishes_its_episodes_and_leaves_the_rest(tmp_path: Path, nats: NatsServer) -> None:
    sampler = FakeSampler(seconds=1.5)
    async with pipeline(tmp_path, nats, sampler) as (job, bus):
        want = await give(bus, sums(6))
        with job.worker() as worker:
            await until("four episodes run", lambda: len(sampler.requests) >= 4)
            hook = await worker.drain()
            await until("it is not ready", lambda: _unready(worker))
            assert await asyncio.wait_for(hook.wait(), 30) == 0
            assert await worker.ended() == 0
        assert len(await collect(bus, 4)) == 4
        sampler.seconds = 0.01
        with job.worker():
            assert (await collect(bus, 2)).keys() <= want


async def test_episodes_too_long_for_the_drain_are_handed_back_at_once(tmp_path: Path, nats: NatsServer) -> None:
    sampler = FakeSampler(seconds=60)
    async with pipeline(tmp_path, nats, sampler, drainSeconds=1) as (job, bus):
        want = await give(bus, sums(4))
        with job.worker() as worker:
            await until("four episodes run", lambda: len(sampler.requests) >= 4)
            hook = await worker.drain()
            assert await asyncio.wait_for(hook.wait(), 15) == 0
        sampler.seconds = 0.01
        with job.worker() as worker:
            await until("the next worker is there", worker.ready)
            started = time.monotonic()
            assert (await collect(bus, 4)).keys() == want
            assert time.monotonic() - started < ACK_WAIT_SECONDS / 2, "without waiting for the acknowledgement time-out"


async def test_a_bus_that_is_killed_and_comes_back_loses_nothing(tmp_path: Path, nats: NatsServer) -> None:
    async with pipeline(tmp_path, nats, FakeSampler(seconds=0.1)) as (job, bus):
        want = await give(bus, sums(40))
        with job.worker() as worker:
            found = await collect(bus, 5)
            nats.kill()
            await asyncio.sleep(1)
            nats.start()
            while found.keys() != want:
                found |= await collect(bus, 1)
            assert worker.process.poll() is None
            await bus.keys.write("admitted", {"epoch": 1, "next": 10, "closed": True})
            await until("the watch has survived too", lambda: _is_paced(worker))


async def test_slots_wait_as_paced_while_the_trainer_has_closed_admission(tmp_path: Path, nats: NatsServer) -> None:
    async with pipeline(tmp_path, nats, FakeSampler()) as (job, bus):
        with job.worker() as worker:
            await until("it is ready", worker.ready)
            await bus.keys.write("admitted", {"epoch": 1, "next": 0, "closed": True})
            await until("paced", lambda: _is_paced(worker))


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"entrypoint": "no_such_module:environment"}, "'no_such_module:environment' does not import"),
        ({"args": {"toolSeconds": "fast"}}, "ValueError: could not convert string to float: 'fast'"),
        ({"args": {"latency": "1"}}, "got an unexpected keyword argument 'latency'"),
    ],
)
async def test_an_environment_that_cannot_be_made_ends_the_worker_with_64_and_its_reason(
    environment: dict[str, object], reason: str, tmp_path: Path, nats: NatsServer
) -> None:
    async with pipeline(tmp_path, nats, FakeSampler(), **environment) as (job, _):
        with job.worker() as worker:
            assert await worker.ended() == 64
            line = worker.last_words
            assert line.startswith("stages.environment.entrypoint")
            assert reason in line


async def _unready(worker: WorkerProcess) -> bool:
    response = await worker.get("/readyz")
    return response is not None and response.status_code == 503 and response.text == "draining"


async def _is_paced(worker: WorkerProcess) -> bool:
    return (await worker.metrics())['steelyard_stage_seconds_total{stage="environment",state="paced"}'] > 1
