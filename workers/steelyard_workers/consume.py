"""Works off the messages of one buffer in a fixed number of slots, and lets go of them when the pod must end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from steelyard_workers.bus import Bus, Delivery
from steelyard_workers.clock import Clock, Slot, State
from steelyard_workers.drain import Drain, first_of
from steelyard_workers.messages import Task
from steelyard_workers.metrics import BufferMetrics

CANCEL_AGAIN_SECONDS = 1.0

M = TypeVar("M", bound=Task)
Work = Callable[[Delivery[M], Slot], Awaitable[None]]


def _starved() -> State:
    return State.STARVED


class Consumer(Generic[M]):
    """Calls `work(delivery, slot)` for each message, at most `size` at a time; `work` ends by acknowledging it.

    `waiting()` names the state of slots without a message. What `work` raises ends the worker: it handles what it
    expects. Work that is cancelled hands its message back.
    """

    def __init__(
        self,
        bus: Bus,
        kind: type[M],
        size: int,
        work: Work[M],
        *,
        clock: Clock,
        buffer: BufferMetrics,
        waiting: Callable[[], State] = _starved,
    ) -> None:
        self._bus, self._kind, self._work = bus, kind, work
        self._buffer, self._waiting = buffer, waiting
        self._idle = [clock.open() for _ in range(size)]
        self._working: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()

    async def run(self, drain: Drain, drain_seconds: float) -> None:
        """Work until a drain is requested, then let what runs finish in time and hand back the rest."""
        async with asyncio.TaskGroup() as group:
            while not drain.requested.is_set():
                await self._take(group, drain)
            self._waiting = lambda: State.DRAIN
            for slot in self._idle:
                slot.enter(self._waiting())
            if self._working:
                await asyncio.wait(set(self._working), timeout=drain_seconds)
            while self._working:  # code of the user's may swallow a cancellation
                for task in self._working:
                    task.cancel()
                await asyncio.wait(set(self._working), timeout=CANCEL_AGAIN_SECONDS)

    async def _take(self, group: asyncio.TaskGroup, drain: Drain) -> None:
        if not self._idle:
            self._freed.clear()
            await first_of(self._freed, drain.requested)
            return
        for slot in self._idle:
            slot.enter(self._waiting())
        for delivery in await self._bus.take(self._kind, 1):
            self._buffer.taken(delivery.waited_seconds)
            task = group.create_task(self._hold(delivery, self._idle.pop()))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _hold(self, delivery: Delivery[M], slot: Slot) -> None:
        try:
            await self._work(delivery, slot)
        except asyncio.CancelledError:
            await delivery.hand_back()
            raise
        finally:
            slot.enter(self._waiting())
            self._idle.append(slot)
            self._freed.set()
