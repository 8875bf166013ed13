"""Takes scored trajectories and dead letters off the bus and hands complete, fresh groups over to the step."""

import asyncio
import logging
from collections.abc import Sequence

from steelyard_workers.bus import Bus
from steelyard_workers.clock import State
from steelyard_workers.drain import first_of
from steelyard_workers.messages import Experience, Hop, TrajectoryId
from steelyard_workers.trainer.collector import LEAST_TRAINABLE, Collector, Group, Held, lag, stale
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.feeder import Feeder
from steelyard_workers.trainer.head import LOOK_SECONDS
from steelyard_workers.trainer.ledger import Book
from steelyard_workers.trainer.limits import Limits
from steelyard_workers.trainer.signals import Signals

FETCH = 256
PULL_SECONDS = 1.0
EARLIER_PULLS_SECONDS = LOOK_SECONDS + PULL_SECONDS + 1.0
"""After which an earlier trainer has no pull open: it has seen that it was overtaken, and its last pull has ended."""
DEAD_LETTERS_EVERY_SECONDS = 1.0
MAX_ATTEMPTS = 8

log = logging.getLogger(__name__)


class Intake:
    """Everything between the bus and the step."""

    def __init__(
        self,
        *,
        bus: Bus,
        book: Book,
        collector: Collector,
        dataset: Dataset,
        feeder: Feeder,
        limits: Limits,
        max_staleness: int,
        signals: Signals,
    ) -> None:
        self._bus, self._book, self._collector = bus, book, collector
        self._dataset, self._feeder, self._limits = dataset, feeder, limits
        self._max_staleness = max_staleness
        self._signals = signals
        self._news = asyncio.Event()
        self.requeued = 0
        """How many trajectories the last hand-over found too old."""

    async def collect(self) -> None:
        """Hold what arrives; never returns. Copies of what is held or closed are acknowledged at once."""
        while True:
            for delivery in await self._bus.take(Experience, FETCH, PULL_SECONDS):
                self._signals.taken(delivery.waited_seconds)
                objection = self._limits.objection(delivery.message)
                if objection is not None:
                    await self._bus.bury(delivery, objection)
                    self._signals.unit("failed")
                    self._mourn(delivery.id)
                elif superfluous := self._place(delivery):
                    self._signals.unit("duplicate")
                    await superfluous.ack()
                self._news.set()

    async def recall_again(self) -> None:
        """Take back what an earlier trainer, frozen or slow to learn that it was overtaken, has received since the
        first recall: by now it asks for nothing any more."""
        await asyncio.sleep(EARLIER_PULLS_SECONDS)
        await self._bus.recall(Hop.EXPERIENCE)

    async def read_dead_letters(self) -> None:
        """Learn which trajectories come to nothing; never returns. All letters are read anew by each epoch."""
        last = 0
        while True:
            async for number, letter in self._bus.dead_letters(after=last):
                last = number
                self._mourn(letter.id)
            await asyncio.sleep(DEAD_LETTERS_EVERY_SECONDS)

    async def hand_over(self, count: int, stop: asyncio.Event) -> Sequence[Group] | None:
        """So many complete groups, none of them too old, lowest numbers first; None when `stop` came before them."""
        self.requeued = 0
        while not stop.is_set():
            self._news.clear()
            complete = self._collector.complete(self._feeder.open_groups())
            hopeless = [group for group in complete if len(group.trainable) < LEAST_TRAINABLE]
            old = [delivery for group in complete for delivery in self._too_old(group)]
            for group in hopeless:
                self._collector.forget(group)
                self._book.give_up(group.number)
            for delivery in old:
                self._collector.drop(delivery)
            if hopeless or old:  # decided at once; to act takes time, in which others arrive: look again afterwards
                for group in hopeless:
                    await self._give_up(group)
                for delivery in old:
                    await self._requeue(delivery)
            elif len(complete) >= count:
                for group in complete[:count]:
                    self._collector.take(group)
                return complete[:count]
            else:
                await first_of(self._news, stop)
        return None

    def _too_old(self, group: Group) -> list[Held]:
        if len(group.trainable) < LEAST_TRAINABLE:
            return []
        return stale(group, self._book.step, self._max_staleness)

    def _place(self, delivery: Held) -> Held | None:
        """Hold a delivery; returns the one to acknowledge because of it."""
        if self._book.is_closed(delivery.id.group) and not self._collector.awaits_commit(delivery.id.group):
            return delivery
        return self._collector.offer(delivery)

    def _mourn(self, id_: TrajectoryId) -> None:
        """A trajectory is dead; its group may be complete without it."""
        if not self._book.is_closed(id_.group):
            self._collector.bury(id_)
            self._news.set()

    async def _requeue(self, delivery: Held) -> None:
        """Too old: have it made anew by a newer policy. First the new task is stored, then the old outcome goes."""
        behind = lag(delivery.message, self._book.step)
        retry = delivery.id.retry()
        if retry.attempt == MAX_ATTEMPTS:
            await self._bus.bury(delivery, f"too old {MAX_ATTEMPTS} times, now {behind} versions behind")
            self._collector.bury(delivery.id)
            self._signals.unit("failed")
            return
        await self._bus.put(self._dataset.task(retry), full=lambda: self._signals.slot.within(State.BLOCKED))
        await delivery.ack()
        self._signals.unit("stale")
        self.requeued += 1

    async def _give_up(self, group: Group) -> None:
        """Too few of its trajectories came to anything: send all of it to the dead letters.

        It is closed already, so that copies that arrive meanwhile are superfluous. Killed half-way, the next epoch
        finds the group complete again, half of it in the dead letters, and comes to the same end.
        """
        reason = f"group {group.number} has fewer than {LEAST_TRAINABLE} trajectories to learn from"
        for delivery in group.held:
            outcome = delivery.message.outcome
            await self._bus.bury(delivery, f"{reason}; this one: {outcome}")
            self._signals.unit("failed" if outcome == "ok" else outcome)
        self._feeder.group_closed()
