"""A worker that is told to end ends, wherever it is inside the NATS client, which may forget a cancellation."""

import asyncio
import contextlib
from typing import Any, cast

import pytest
from nats.aio.client import Client

from e2e.local import job_json
from steelyard_workers import bus as bus_module
from steelyard_workers import bus_streams
from steelyard_workers.bus import Bus
from steelyard_workers.bus_keys import Keys
from steelyard_workers.bus_patience import BusLost, Patience
from steelyard_workers.config import JobConfig
from steelyard_workers.latest import Latest


class Forgetful:
    """What the client does when an answer and a cancellation come together (asyncio.wait_for of Python 3.11)."""

    def __init__(self, answer: Any = None) -> None:
        self.asked = asyncio.Event()
        self._answer = answer

    async def __call__(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return self._answer


class Silent:
    """A watcher of a key that never changes."""

    def __aiter__(self) -> "Silent":
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(3600)


async def ended(task: asyncio.Task[None]) -> bool:
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=1)
    task.cancel()
    return bool(done) and task.cancelled()


async def test_as_the_watch_of_a_key_begins() -> None:
    bucket = cast(Any, type("Bucket", (), {})())
    bucket.watch, bucket.get = Forgetful(Silent()), Forgetful()
    following = asyncio.create_task(Latest(Keys(bucket, Patience(lambda: True)), "policy").follow())
    await bucket.watch.asked.wait()
    assert await ended(following)


@pytest.fixture
def job() -> JobConfig:
    return JobConfig.model_validate(job_json())


async def work(job: JobConfig) -> None:
    async with Bus.connected("nats://nowhere:4222", job, "test"):
        await asyncio.sleep(3600)


async def test_as_it_connects(job: JobConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Forgetful()
    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setattr(Client, "close", lambda _: asyncio.sleep(0))
    working = asyncio.create_task(work(job))
    await connect.asked.wait()
    assert await ended(working)


async def test_a_connection_without_streams_is_closed(job: JobConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler tries again for ever: each try left a client behind that went on reconnecting."""
    closed: list[Client] = []

    async def close(client: Client) -> None:
        closed.append(client)

    monkeypatch.setattr(bus_module, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr(Client, "connect", lambda *_, **__: asyncio.sleep(0))
    monkeypatch.setattr(Client, "close", close)
    monkeypatch.setattr(bus_streams, "ensure", lambda *_, **__: asyncio.sleep(3600))
    with pytest.raises(BusLost):
        await work(job)
    assert len(closed) == 1
