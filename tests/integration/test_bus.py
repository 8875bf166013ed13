"""The bus against a real server: what is stored is stored once, what is held stays held, what is refused is said."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from prometheus_client import CollectorRegistry, generate_latest

from e2e.local import Pipeline, job_json, pipeline
from steelyard_workers import bus as bus_module
from steelyard_workers import bus_patience, bus_streams
from steelyard_workers.bus import MAX_DELIVERIES, Bus
from steelyard_workers.bus_exporter.run import BufferCollector
from steelyard_workers.bus_keys import Overtaken
from steelyard_workers.bus_patience import BusDenied, BusLost
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Experience, Hop, Malformed, Task, TrajectoryId
from tests.unit.workers.experience import experience
from tests.worker_process import until

ROOM = 2 * (2 * 4 + 2 * 4)  # of TASKS for the job below: twice what can be open after a resume


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Pipeline]:
    """A server that runs, for a job of four trajectories a step."""
    job = job_json(
        algorithm={"promptsPerStep": 2, "groupSize": 2, "maxStaleness": 1},
        checkpoints={"everySteps": 2},
        buffer={"maxTrajectories": 50, "maxExperience": 60},
    )
    with pipeline(tmp_path, job) as parts:
        parts.start("bus")
        yield parts


@contextlib.asynccontextmanager
async def connected(parts: Pipeline, user: str = "", *, set_bounds: bool = False) -> AsyncIterator[Bus]:
    job = JobConfig.load(parts.folder / "job.json")
    url = parts.nats_url.replace("//", f"//{user}")
    async with Bus.connected(url, job, "test", set_bounds=set_bounds) as bus:
        yield bus


@pytest.fixture
async def bus(parts: Pipeline) -> AsyncIterator[Bus]:
    """A connection."""
    async with connected(parts) as bus:
        yield bus


def task(group: int = 0, k: int = 0, attempt: int = 0) -> Task:
    return Task(id=TrajectoryId(group=group, k=k, attempt=attempt), task={"prompt": "x"}, seed=1)


async def test_an_id_is_stored_once(bus: Bus) -> None:
    assert await bus.put(task())
    assert not await bus.put(task())
    assert await bus.put(task(attempt=1))
    assert await bus.stored(Hop.TASKS) == {task().id, task(attempt=1).id}


async def test_a_publisher_waits_and_says_so_while_the_buffer_is_full_and_goes_on_when_there_is_room(bus: Bus) -> None:
    for group in range(ROOM):
        await bus.put(task(group))
    blocked = asyncio.Event()

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        blocked.set()
        yield
        blocked.clear()

    put = asyncio.create_task(bus.put(task(ROOM), full=full))
    await blocked.wait()
    assert len(await bus.stored(Hop.TASKS)) == ROOM, "nothing is dropped to make room"
    (delivery,) = await bus.take(Task, 1)
    await delivery.ack()
    assert await put
    assert not blocked.is_set()


async def test_what_is_held_stays_held_and_what_is_handed_back_comes_again(
    parts: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_streams, "ACK_WAIT_SECONDS", 0.6)
    async with connected(parts) as bus, connected(parts) as other:
        await bus.put(task())
        (delivery,) = await bus.take(Task, 1)
        assert await other.take(Task, 1, wait_seconds=1.5) == [], "kept alive beyond the acknowledgement wait"
        await delivery.hand_back()
        (again,) = await other.take(Task, 1)
        assert again.sequence == delivery.sequence


async def test_a_worker_that_is_cancelled_as_a_message_comes_ends(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NATS client may return the message and forget the cancellation (asyncio.wait_for of Python 3.11)."""
    fetch = JetStreamContext.PullSubscription.fetch
    waits = asyncio.Event()

    async def fetched_and_not_cancelled(subscription: Any, *args: Any, **kwargs: Any) -> Any:
        waits.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        return await fetch(subscription, *args, **kwargs)

    await bus.put(task())
    monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", fetched_and_not_cancelled)
    taking = asyncio.create_task(bus.take(Task, 1))
    await waits.wait()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking


async def test_a_payload_that_does_not_parse_goes_to_the_dead_letters_with_the_reason(bus: Bus) -> None:
    await bus.publish("scored.calculator.4.1.0", b'{"id": 3}')
    await bus.put(experience(5))
    deliveries = await bus.take(Experience, 10)
    assert [delivery.id.group for delivery in deliveries] == [5]
    ((_, letter),) = [letter async for letter in bus.dead_letters()]
    assert await bus.buried() == {letter.id}
    assert (str(letter.id), letter.hop, letter.payload) == ("4/1/0", "experience", '{"id": 3}')
    assert "Experience id" in letter.reason
    assert await bus.stored(Hop.EXPERIENCE) == {experience(5).id}


async def test_who_finds_no_room_among_the_dead_letters_says_so_and_loses_nothing(
    parts: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bus_streams, "MAX_DEAD_LETTERS", 1)
    async with connected(parts) as bus:
        for group in (0, 1):
            await bus.put(task(group))
        first, second = await bus.take(Task, 2)
        await bus.bury(first, "of no use")
        burying = asyncio.create_task(bus.bury(second, "of no use either"))
        await until("it is told", lambda: "no room for 1/0/0" in caplog.text)
        assert await bus.stored(Hop.TASKS) == {second.id}

        await bus._js.purge_stream(bus_streams.DEAD)
        await burying
        assert await bus.buried() == {second.id}


async def test_a_task_that_no_worker_survives_goes_to_the_dead_letters(bus: Bus) -> None:
    await bus.put(task())
    for _ in range(MAX_DELIVERIES):
        (delivery,) = await bus.take(Task, 1)
        await delivery.hand_back()
    assert await bus.take(Task, 1, wait_seconds=0.3) == []
    ((_, letter),) = [letter async for letter in bus.dead_letters()]
    assert await bus.buried() == {letter.id}
    assert letter.reason == f"delivered {MAX_DELIVERIES} times and never finished"
    assert await bus.stored(Hop.TASKS) == set()


async def test_the_trainers_messages_survive_any_number_of_its_deaths(bus: Bus) -> None:
    await bus.put(experience())
    for _ in range(MAX_DELIVERIES + 2):
        (delivery,) = await bus.take(Experience, 1)
        await delivery.hand_back()
    assert len(await bus.take(Experience, 1)) == 1


async def test_a_recall_brings_back_at_once_what_a_dead_holder_held(parts: Pipeline, bus: Bus) -> None:
    await bus.put(experience())
    async with connected(parts) as holder:
        assert len(await holder.take(Experience, 1)) == 1
    assert await bus.take(Experience, 1, wait_seconds=0.3) == []
    await bus.recall(Hop.EXPERIENCE)
    assert len(await bus.take(Experience, 1)) == 1


async def test_what_a_recall_sends_to_a_pull_that_is_still_open_comes_with_the_next_recall(
    parts: Pipeline, bus: Bus
) -> None:
    """A trainer that was frozen in its pull: to the server it is there, and first in the queue."""
    await bus.put(experience())
    async with connected(parts) as frozen:
        assert len(await frozen.take(Experience, 10)) == 1
        pull = asyncio.create_task(frozen.take(Experience, 10, wait_seconds=5))
        while not (await bus._js.consumer_info(Hop.EXPERIENCE.stream, Hop.EXPERIENCE.consumer)).num_waiting:
            """The pull is on its way to the server."""
        await bus.recall(Hop.EXPERIENCE)
        assert await bus.take(Experience, 1, wait_seconds=0.3) == []
        assert len(await pull) == 1
        await bus.recall(Hop.EXPERIENCE)
        assert len(await bus.take(Experience, 1)) == 1


async def test_a_message_that_is_delivered_again_is_kept_alive_once(bus: Bus) -> None:
    await bus.put(experience())
    (first,) = await bus.take(Experience, 1)
    await bus.recall(Hop.EXPERIENCE)
    (again,) = await bus.take(Experience, 1)
    assert list(bus._held.values()) == [again]
    await first.ack()
    assert list(bus._held.values()) == [again], "its holder has not said so yet"
    await again.ack()
    assert not bus._held


async def test_a_key_changes_only_for_those_who_know_its_revision(bus: Bus) -> None:
    keys = bus.keys
    assert await keys.read("head") == (None, 0)
    first = await keys.swap("head", {"epoch": 1}, 0)
    second = await keys.swap("head", {"epoch": 2}, first)
    with pytest.raises(Overtaken):
        await keys.swap("head", {"epoch": 3}, first)
    assert await keys.read("head") == ({"epoch": 2}, second)


async def test_a_swap_whose_answer_was_lost_is_recognised_as_done(bus: Bus) -> None:
    revision = await bus.keys.swap("head", {"epoch": 1, "holder": "a"}, 0)
    assert await bus.keys.swap("head", {"epoch": 1, "holder": "a"}, 0) == revision
    with pytest.raises(Overtaken):
        await bus.keys.swap("head", {"epoch": 1, "holder": "b"}, 0)


async def test_a_pointer_never_goes_back(bus: Bus) -> None:
    def order(value: dict[str, int]) -> tuple[int, ...]:
        return (value["epoch"],)

    await bus.keys.advance("policy", {"epoch": 2}, order)
    await bus.keys.advance("policy", {"epoch": 2}, order)
    with pytest.raises(Overtaken):
        await bus.keys.advance("policy", {"epoch": 1}, order)


async def test_publishing_outlives_the_server(parts: Pipeline, bus: Bus) -> None:
    await bus.put(task(0))
    parts["bus"].kill()
    put = asyncio.create_task(bus.put(task(1)))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(parts.start, "bus")
    await put
    assert await bus.stored(Hop.TASKS) == {task(0).id, task(1).id}
    assert len(await bus.take(Task, 5)) == 2


async def test_a_server_that_lost_everything_gets_its_streams_back(parts: Pipeline, bus: Bus) -> None:
    parts["bus"].kill()
    (parts.folder / "bus").rename(parts.folder / "lost")
    await asyncio.to_thread(parts.start, "bus")
    await bus.put(task())
    async with asyncio.timeout(10):
        while not await bus.take(Task, 1):
            """The consumer is made a moment after the stream."""


async def test_a_forbidden_subject_is_named_instead_of_retried_for_ever(parts: Pipeline) -> None:
    async with connected(parts):
        pass  # the streams exist
    parts["bus"].kill()
    configuration = parts.folder / "nats.conf"
    configuration.write_text(
        configuration.read_text()
        + 'authorization { users [ { user: env, password: pw, permissions: { publish: { deny: "tasks.>" } } } ] }\n'
    )
    parts.start("bus")
    async with connected(parts, "env:pw@") as bus:
        async with asyncio.timeout(10):
            with pytest.raises(BusDenied, match=r"tasks\.calculator\.0\.0\.0"):
                await bus.put(task())


@pytest.mark.parametrize("gone", ["before it connected", "while it worked"])
async def test_a_worker_that_is_told_to_stop_waits_seconds_for_a_bus_that_is_gone(
    parts: Pipeline, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """A deleted job takes its bus along; its trainer held a GPU for five more minutes to wait for it."""
    monkeypatch.setattr(bus_patience, "LEAVING_SECONDS", 0.5)
    monkeypatch.setattr(bus_module, "LEAVING_SECONDS", 0.5)
    leaving = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, leaving.set)
    job = JobConfig.load(parts.folder / "job.json")
    if gone == "before it connected":
        parts["bus"].kill()

    async def work() -> None:
        async with Bus.connected(parts.nats_url, job, "test", leaving) as bus:
            parts["bus"].kill()
            await bus.put(task())

    with pytest.raises(BusLost):
        await asyncio.wait_for(work(), 20)


async def test_a_message_larger_than_the_bus_takes_is_refused(bus: Bus) -> None:
    large = Task(id=task().id, task={"prompt": "x" * 9_000_000}, seed=1)
    with pytest.raises(Malformed, match="more than the bus takes"):
        await bus.put(large)


async def test_changed_bounds_reach_the_streams_of_a_job_that_runs_through_one_worker_alone(
    parts: Pipeline, bus: Bus
) -> None:
    """Those that read the job before the change must not bring the old bounds back when they reconnect."""
    await bus.put(experience())
    path = parts.folder / "job.json"
    job = json.loads(path.read_text())
    job["spec"]["buffer"]["maxExperience"] = 99
    path.write_text(json.dumps(job))
    for set_bounds, capacity in ((False, 60), (True, 99)):
        async with connected(parts, set_bounds=set_bounds) as later:
            assert await later.stored(Hop.EXPERIENCE) == {experience().id}
        assert f'steelyard_buffer_capacity{{buffer="experience"}} {capacity}.0' in metrics(parts).decode()


async def test_depth_and_capacity_of_the_buffers_come_from_the_server(parts: Pipeline, bus: Bus) -> None:
    await bus.put(task(0))
    await bus.put(task(1))
    await bus.take(Task, 1)
    lines = metrics(parts).decode().splitlines()
    assert 'steelyard_buffer_depth{buffer="tasks"} 2.0' in lines, "held ones included"
    assert f'steelyard_buffer_capacity{{buffer="tasks"}} {ROOM:.1f}' in lines
    assert 'steelyard_buffer_capacity{buffer="trajectories"} 50.0' in lines


def test_without_a_server_the_series_are_absent(parts: Pipeline) -> None:
    parts["bus"].kill()
    assert metrics(parts) == b""


def metrics(parts: Pipeline) -> bytes:
    registry = CollectorRegistry()
    registry.register(BufferCollector(f"http://127.0.0.1:{parts.port('monitor')}"))
    return generate_latest(registry)
