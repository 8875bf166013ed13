"""Feeds TASKS group by group, as many as may be open, and finds its place again after a restart.

Groups are admitted strictly in order. `admitted` on the bus says which were fed whole; the ledger says which are
closed; the streams say which trajectories are under way. What is open but nowhere is fed again.
"""

import asyncio
import logging

from steelyard_workers.bus import Bus
from steelyard_workers.bus_keys import Overtaken, Value
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Hop, TrajectoryId
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.ledger import Book

ADMITTED = "admitted"

log = logging.getLogger(__name__)


class Feeder:
    """The one feeder of a job: that of the trainer's present epoch."""

    def __init__(self, bus: Bus, dataset: Dataset, book: Book, job: JobConfig) -> None:
        self._bus = bus
        self._dataset = dataset
        self._book = book
        self._size = job.spec.algorithm.group_size
        self._limit = job.open_limit
        self._closed = asyncio.Event()
        self._revision = 0
        self.next = 0

    async def restore(self) -> None:
        """Take over from the feeder of an earlier epoch, then feed again what got lost or was never fed whole."""
        recorded = await self._fence()
        under_way = await self._under_way()
        seen = max((group + 1 for group, _ in under_way), default=0)
        self.next = max(recorded, seen, self._book.high_water)
        missing = self._missing(under_way)
        if missing:  # one that moved on while the streams were listed is found in a second look
            missing &= self._missing(await self._under_way())
        for group, k in sorted(missing):
            if group < recorded:
                log.error("trajectory %d/%d was admitted and is nowhere: fed again", group, k)
                self._book.refeed(group, k)
            await self._feed(group, k)
        await self._record()

    async def run(self) -> None:
        """Admit groups whenever there is room; never returns."""
        while True:
            while self._has_room():
                async with asyncio.TaskGroup() as group:
                    for k in range(self._size):
                        group.create_task(self._feed(self.next, k))
                self.next += 1
                await self._record()
            await self._closed.wait()
            self._closed.clear()

    def group_closed(self) -> None:
        """There may be room now."""
        self._closed.set()

    def open_groups(self) -> list[int]:
        """Admitted and not closed, lowest first."""
        return self._book.open_groups(self.next)

    def _has_room(self) -> bool:
        return (len(self.open_groups()) + 1) * self._size <= self._limit

    async def _fence(self) -> int:
        """Make every write of an earlier epoch's feeder fail; returns how many groups were fed whole."""
        while True:
            value, revision = await self._bus.keys.read(ADMITTED)
            recorded = int(value["next"]) if value else 0
            try:
                self._revision = await self._bus.keys.swap(ADMITTED, self._value(recorded), revision)
            except Overtaken:
                continue
            return recorded

    async def _record(self) -> None:
        self._revision = await self._bus.keys.swap(ADMITTED, self._value(self.next), self._revision)

    def _value(self, admitted: int) -> Value:
        return {"epoch": self._book.epoch, "next": admitted, "size": self._size, "closed": not self._has_room()}

    def _missing(self, under_way: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {(group, k) for group in self.open_groups() for k in range(self._size)} - under_way

    async def _under_way(self) -> set[tuple[int, int]]:
        """Every member that a stream holds. Listed downstream: what moves on meanwhile is seen where it goes."""
        found = {id_.member for hop in Hop for id_ in await self._bus.stored(hop)}
        return found | {id_.member for id_ in await self._bus.buried()}

    async def _feed(self, group: int, k: int) -> None:
        """Publish a member's task. The bus swallows an id that it held before; if it is nowhere now, try the next."""
        id_ = TrajectoryId(group=group, k=k, attempt=0)
        while not await self._bus.put(self._dataset.task(id_)) and id_.member not in await self._under_way():
            id_ = id_.retry()
