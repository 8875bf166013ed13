"""The feeder as long as its bus works, and when it no longer does."""

import asyncio
from typing import Any, cast

import pytest

from e2e.local import job_json
from steelyard_workers.bus_patience import BusLost
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Task
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.feeder import Feeder
from steelyard_workers.trainer.ledger import Book, Ledger

SIZE = 4


class FakeKeys:
    async def swap(self, key: str, value: Any, revision: int) -> int:
        return revision + 1


class FakeBus:
    """Stores tasks; from group `lost_from` on the first member finds the bus gone, and the others wait."""

    def __init__(self, lost_from: int) -> None:
        self.keys, self._lost_from = FakeKeys(), lost_from
        self.stored: list[str] = []
        self.asking = 0

    async def put(self, task: Task) -> bool:
        if task.id.group < self._lost_from:
            self.stored.append(str(task.id))
            return True
        self.asking += 1
        try:
            await asyncio.sleep(0)
            if task.id.k == 0:
                raise BusLost("no answer")
            await asyncio.sleep(3600)
        finally:
            self.asking -= 1
        return True


def feeder(bus: FakeBus) -> Feeder:
    """Of a job with room for three groups of four."""
    job = job_json(algorithm={"groupSize": SIZE, "promptsPerStep": 1, "maxStaleness": 2})
    return Feeder(cast(Any, bus), Dataset([{}], seed=7), Book(Ledger(), epoch=1), JobConfig.model_validate(job))


async def test_groups_are_admitted_in_order_while_there_is_room() -> None:
    bus = FakeBus(lost_from=99)
    feeding = asyncio.create_task(feeder(bus).run())
    await asyncio.sleep(0.05)
    feeding.cancel()
    assert bus.stored == [f"{group}/{k}/0" for group in range(3) for k in range(SIZE)]


async def test_when_the_bus_is_lost_no_member_of_the_group_is_left_asking() -> None:
    bus = FakeBus(lost_from=1)
    with pytest.raises(ExceptionGroup) as failed:
        await feeder(bus).run()
    assert failed.group_contains(BusLost)
    assert bus.asking == 0
