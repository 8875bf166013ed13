"""Keeps one coroutine for each thing under control: it wakes on changes, and what goes wrong in one stays there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter, Histogram

from steelyard.balance.types import Instant
from steelyard.cluster.errors import ClusterError, NotLeader

log = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 0.05
BACKOFF_SECONDS = (1.0, 60.0)

K = TypeVar("K")


class Round(Protocol):
    """What is done again and again about one thing."""

    name: str

    async def tick(self, now: Instant) -> float | None:
        """One round; returns the seconds until the next, None when there is no such thing any more."""
        ...

    async def confess(self, error: Exception) -> None:
        """Tell whoever looks at the thing about a bug."""
        ...


class Supervisor(Generic[K]):
    """Supervises the rounds of many things, each known by a key."""

    def __init__(
        self,
        make: Callable[[K], Round],
        clock: Callable[[], Instant],
        ticks: Counter,
        tick_seconds: Histogram,
        debounce_seconds: float = DEBOUNCE_SECONDS,
    ) -> None:
        self._make, self._clock, self._ticks, self._tick_seconds = make, clock, ticks, tick_seconds
        self._debounce_seconds = debounce_seconds
        self._wakes: dict[K, asyncio.Event] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._tasks)

    def wake(self, key: K) -> None:
        """Something about this one changed; it may be one we have not met."""
        if self._stopped:
            return
        self._wakes.setdefault(key, asyncio.Event()).set()
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._supervise(key))

    async def stop(self) -> None:
        """End all coroutines; nothing wakes any more."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _supervise(self, key: K) -> None:
        shortest, longest = BACKOFF_SECONDS
        one, wake, backoff = self._make(key), self._wakes[key], shortest
        try:
            while True:
                wake.clear()
                pause, failed = await self._round(one, backoff)
                backoff = min(backoff * 2, longest) if failed else shortest
                if failed and pause:
                    await asyncio.sleep(pause)  # a watch event is no reason to fail again at once
                elif pause is not None:
                    await self._wait(wake, pause)
                elif not wake.is_set():
                    return
        finally:
            del self._tasks[key], self._wakes[key]

    async def _round(self, one: Round, backoff: float) -> tuple[float | None, bool]:
        """One tick and the seconds to wait after it, `backoff` if it failed; whether it did."""
        with self._tick_seconds.time():
            try:
                pause = await one.tick(self._clock())
            except NotLeader:
                self._ticks.labels("not-leader").inc()
                return BACKOFF_SECONDS[1], False
            except ClusterError as error:
                log.info("%s: again in %g s: %s", one.name, backoff, error)
                self._ticks.labels("retried").inc()
                return backoff, True
            except Exception as error:
                log.exception("%s: a bug; again in %g s", one.name, backoff)
                self._ticks.labels("bug").inc()
                await one.confess(error)
                return backoff, True
        self._ticks.labels("done").inc()
        return pause, False

    async def _wait(self, wake: asyncio.Event, seconds: float) -> None:
        """Until woken or `seconds` have passed; a burst of changes is one wake."""
        try:
            async with asyncio.timeout(seconds):
                await wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._debounce_seconds)
