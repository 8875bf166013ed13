"""The middleware around an application that is not vLLM: who is let through, what is stamped, what a drain refuses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry

from steelyard_workers.config import Place
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler import middleware as module
from steelyard_workers.sampler.follower import Follower
from steelyard_workers.sampler.middleware import Middleware
from steelyard_workers.sampler.run import flags
from steelyard_workers.sampler_protocol import VERSION_HEADER
from tests.pipeline import job_config, worker_environment
from tests.unit.workers.test_sampler_follower import FakeEngine


class Server:
    """An application in our middleware; `during` runs in the middle of each completion."""

    def __init__(self) -> None:
        self.during: Callable[[], None] = lambda: None
        self.hold = asyncio.Event()
        self.hold.set()
        app = FastAPI()

        @app.post("/v1/completions")
        async def completions() -> PlainTextResponse:
            await self.hold.wait()
            self.during()
            return PlainTextResponse("tokens")

        @app.post("/pause")
        async def pause() -> PlainTextResponse:
            return PlainTextResponse("paused")

        @app.get("/health")
        async def health() -> PlainTextResponse:
            return PlainTextResponse("alive")

        self.middleware = Middleware(app)

    @property
    def follower(self) -> Follower:
        assert self.middleware._follower is not None
        return self.middleware._follower

    def client(self, address: str = "10.0.0.9") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.middleware, client=(address, 4321))
        return httpx.AsyncClient(transport=transport, base_url="http://sampler")


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    async with server.middleware._alive(FakeEngine()):
        server.follower.published = server.follower.version = PolicyVersion(1, 4)
        yield server


@pytest.fixture(autouse=True)
def _job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus that never answers: serving must not depend on it."""
    job = job_config(stages={"sampler": {"drainSeconds": 5}})
    for name, value in worker_environment(job, tmp_path, "nats://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "REGISTRY", CollectorRegistry())


async def test_answers_carry_the_version_and_both_when_it_changed_under_way() -> None:
    async with serving() as server, server.client() as client:
        unchanged = await client.post("/v1/completions")
        server.during = lambda: setattr(server.follower, "version", PolicyVersion(1, 5))
        changed = await client.post("/v1/completions")
        refused = await client.post("/pause")
    assert (unchanged.text, unchanged.headers[VERSION_HEADER]) == ("tokens", "1.4")
    assert changed.headers[VERSION_HEADER] == "1.4, 1.5"
    assert (refused.status_code, refused.text) == (403, "answered only inside the pod")


async def test_people_inside_the_pod_reach_the_engines_routes() -> None:
    async with serving() as server, server.client("127.0.0.1") as client:
        assert (await client.post("/pause")).text == "paused"


async def test_health_is_the_engines_own_and_readiness_is_ours() -> None:
    async with serving() as server, server.client() as client:
        assert (await client.get("/healthz")).text == "alive"
        assert (await client.get("/readyz")).status_code == 200
        server.follower.published = PolicyVersion(1, 9)
        behind = await client.get("/readyz")
        assert (behind.status_code, behind.text) == (503, "version 1.4 is 5 behind 1.9, allowed 2")
        server.middleware._health.die("no token for 300 s")
        assert (await client.get("/healthz")).status_code == 503


async def test_a_drain_lets_running_requests_finish_and_refuses_new_ones() -> None:
    """vllm-project/vllm#24885: and PR#43208: scale-down aborted what was in flight."""
    async with serving() as server, server.client() as client:
        server.hold.clear()
        running = asyncio.create_task(client.post("/v1/completions"))
        await asyncio.sleep(0.05)
        server.middleware._drain.request()
        await asyncio.sleep(0.05)
        refused = await client.post("/v1/completions")
        ready = await client.get("/readyz")
        assert not server.middleware._drain.done.is_set()
        server.hold.set()
        finished = await running
        await asyncio.wait_for(server.middleware._drain.done.wait(), 5)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert (ready.status_code, ready.text) == (503, "draining")
    assert finished.status_code == 200


PROFILES = [
    {"name": "pair", "resources": {"nvidia.com/gpu": "2"}, "gpus": "2"},
    {"name": "slice", "resources": {"nvidia.com/gpu.shared": "1"}, "gpus": "500m", "memoryPercent": 45},
]


@pytest.mark.parametrize(
    ("profile", "want"),
    [
        ("pair", ["--tensor-parallel-size", "2"]),
        ("slice", ["--gpu-memory-utilization", "0.405"]),
        ("default", []),
    ],
)
def test_the_gpu_profile_the_job_and_we_tell_vllm_what_to_do_in_this_order(profile: str, want: list[str]) -> None:
    job = job_config(stages={"sampler": {"gpuProfiles": PROFILES, "engine": {"args": ["--port", "1"]}}})
    given = flags(job, Place.from_environment(), profile)
    assert given[: len(want) + 4] == ["--gdn-prefill-backend", "triton", *want, "--port", "1"]
    assert given[len(given) - given[::-1].index("--port")] == "8000", "ours is the last and holds"
