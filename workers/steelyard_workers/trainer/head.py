"""The right to commit: an epoch claimed on the bus, which a later claim takes away.

Claim and commit are the same operation, a compare-and-set of `head`. Whoever was overtaken loses the compare, however
late it wakes up.
"""

import asyncio
import uuid
from collections.abc import Callable

from steelyard_workers.bus_keys import Keys, Overtaken, Value
from steelyard_workers.messages import PolicyVersion

HEAD = "head"
PLAN = "plan"
LOOK_SECONDS = 1.0


class Head:
    """The claim of one epoch. `checkpoint` is the name of the last committed checkpoint, None before the first."""

    def __init__(self, keys: Keys, epoch: int, step: int, checkpoint: str | None) -> None:
        self._keys = keys
        self._revision = 0
        self._holder = uuid.uuid4().hex  # two claims of one epoch must differ, see Keys.swap
        self.epoch = epoch
        self.step = step
        self.checkpoint = checkpoint

    @classmethod
    async def claim(cls, keys: Keys, rank: str, newest: Callable[[], str | None]) -> "Head":
        """Begin the next epoch. When the bus knows of no head, the `newest` checkpoint on disk is the place to resume.

        Raises Overtaken when two trainers claim at a time and this one lost.
        """
        value, revision = await keys.read(HEAD)
        if value is not None:
            last, step, checkpoint = value["epoch"], value["step"], value["path"]
        elif (name := newest()) is not None:
            (last, step), checkpoint = PolicyVersion.parse(name), name
        else:
            last, step, checkpoint = 0, 0, None
        head = cls(keys, last + 1, step, checkpoint)
        head._revision = await keys.swap(HEAD, head._value(), revision)
        await keys.advance(PLAN, {"epoch": head.epoch, "ranks": [rank]}, lambda plan: (plan["epoch"],))
        return head

    async def commit(self, step: int, checkpoint: str) -> None:
        """Make a checkpoint the job's state. Raises Overtaken, and nothing has changed, when a later epoch began."""
        self.step, self.checkpoint = step, checkpoint
        self._revision = await self._keys.swap(HEAD, self._value(), self._revision)

    async def overtaken(self) -> None:
        """Never returns; raises Overtaken soon after a later epoch began."""
        while True:
            value, _ = await self._keys.read(HEAD)
            if value is not None and value["epoch"] > self.epoch:
                raise Overtaken(f"epoch {value['epoch']} began, this trainer holds {self.epoch}")
            await asyncio.sleep(LOOK_SECONDS)

    def _value(self) -> Value:
        return {"epoch": self.epoch, "step": self.step, "path": self.checkpoint, "holder": self._holder}
