"""Slots that work off a buffer: how many at a time, what state they show, what a drain leaves behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from steelyard_workers.clock import Clock, Slot, State
from steelyard_workers.consume import Consumer
from steelyard_workers.drain import Drain
from steelyard_workers.messages import Task
from steelyard_workers.metrics import BufferMetrics
from tests.unit.workers.fakes import FakeBus, task


class Stage:
    """A consumer of a bus in memory; `work` is held up until `go` is set."""

    def __init__(self, count: int, size: int, work: Callable[[Any], Awaitable[None]] | None = None) -> None:
        self.bus = FakeBus(task(k=k) for k in range(count))
        self.clock, self.drain, self.go = Clock(), Drain(), asyncio.Event()
        self.registry = CollectorRegistry()
        self.waiting = State.STARVED
        self.most = self.now = 0
        self._work = work
        self.consumer: Consumer[Task] = Consumer(
            self.bus,  # type: ignore[arg-type]
            Task,
            size,
            self._one,
            clock=self.clock,
            buffer=BufferMetrics("tasks", self.registry),
            waiting=lambda: self.waiting,
        )

    async def _one(self, delivery: Any, slot: Slot) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            with slot.within(State.BUSY):
                await self.go.wait()
                if self._work:
                    await self._work(delivery)
                await delivery.ack()
        finally:
            self.now -= 1

    def fates(self) -> list[str]:
        return [delivery.fate for delivery in self.bus.deliveries]

    async def settled(self) -> None:
        await asyncio.sleep(0.1)


async def test_no_more_than_its_slots_are_taken_and_everything_is_worked_off() -> None:
    stage = Stage(count=10, size=3)
    running = asyncio.create_task(stage.consumer.run(stage.drain, 5))
    await stage.settled()
    assert (stage.most, stage.clock.working, stage.clock.slots) == (3, 3, 3)
    stage.go.set()
    await stage.settled()
    assert stage.fates() == ["acked"] * 10
    assert stage.most == 3
    stage.drain.request()
    await running
    assert stage.registry.get_sample_value("steelyard_buffer_wait_seconds_count", {"buffer": "tasks"}) == 10


async def test_slots_without_work_are_starved_or_paced_as_the_trainer_says() -> None:
    stage = Stage(count=0, size=2)
    running = asyncio.create_task(stage.consumer.run(stage.drain, 5))
    await stage.settled()
    stage.waiting = State.PACED
    await stage.settled()
    seconds = stage.clock.seconds()
    assert seconds[State.STARVED] > 0.1
    assert seconds[State.PACED] > 0.1
    assert seconds[State.BUSY] == 0
    stage.drain.request()
    await running


async def test_a_drain_finishes_what_runs_and_takes_nothing_more() -> None:
    stage = Stage(count=5, size=2)
    running = asyncio.create_task(stage.consumer.run(stage.drain, 5))
    await stage.settled()
    stage.drain.request()
    await stage.settled()
    assert not running.done()
    stage.go.set()
    await asyncio.wait_for(running, 2)
    assert stage.fates() == ["acked", "acked", "held", "held", "held"]


async def test_every_slot_drains_once_a_drain_is_requested_whenever_its_work_ends() -> None:
    stage = Stage(count=2, size=3)
    running = asyncio.create_task(stage.consumer.run(stage.drain, 5))
    await stage.settled()
    stage.drain.request()
    await stage.settled()
    before = stage.clock.seconds()
    stage._work = lambda delivery: asyncio.sleep(0.2 * (1 - delivery.id.k))
    stage.go.set()
    await asyncio.wait_for(running, 2)
    spent = {state: seconds - before[state] for state, seconds in stage.clock.seconds().items()}
    assert spent[State.STARVED] < 0.1
    assert spent[State.DRAIN] > 0.3, "the idle slot for 0.2 s and the first to finish for as long"


async def test_what_does_not_finish_in_time_is_handed_back() -> None:
    stage = Stage(count=5, size=2)
    running = asyncio.create_task(stage.consumer.run(stage.drain, 0.05))
    await stage.settled()
    stage.drain.request()
    await asyncio.wait_for(running, 2)
    assert stage.fates() == ["handed back", "handed back", "held", "held", "held"]
    assert stage.clock.working == 0


@pytest.mark.looptime
async def test_work_that_swallows_a_cancellation_is_asked_again() -> None:
    """A tool of the user's that catches everything, or waits with the wait_for of Python 3.11."""

    async def stubborn(_: Any) -> None:
        try:
            await asyncio.sleep(60)
        except BaseException:
            await asyncio.sleep(60)

    stage = Stage(count=1, size=1, work=stubborn)
    stage.go.set()
    running = asyncio.create_task(stage.consumer.run(stage.drain, 0.05))
    await stage.settled()
    stage.drain.request()
    await asyncio.wait_for(running, 10)
    assert stage.fates() == ["handed back"]


async def test_a_bug_in_the_work_ends_the_worker_and_hands_the_rest_back() -> None:
    async def breaks(delivery: Any) -> None:
        if delivery.id.k == 0:
            raise ZeroDivisionError
        await asyncio.sleep(60)

    stage = Stage(count=2, size=2, work=breaks)
    stage.go.set()
    with pytest.raises(ExceptionGroup):
        await asyncio.wait_for(stage.consumer.run(stage.drain, 5), 5)
    assert stage.fates() == ["held", "handed back"]
