"""The trainer's story: take the job over, then collect, learn, publish and commit until the last step.

Nothing is acknowledged before the commit of the step that trained it, and the commit is one compare-and-set of `head`.
Killed anywhere, the next epoch starts from the last commit and finds everything else still on the bus.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from steelyard_workers.clock import State
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.trace import Tracer
from steelyard_workers.trainer import grpo
from steelyard_workers.trainer.board import Board
from steelyard_workers.trainer.checkpoint import Checkpoints
from steelyard_workers.trainer.collector import Collector, Group, lag
from steelyard_workers.trainer.feeder import Feeder
from steelyard_workers.trainer.figures import StepFigures
from steelyard_workers.trainer.head import Head
from steelyard_workers.trainer.intake import Intake
from steelyard_workers.trainer.ledger import Book
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.signals import Signals
from steelyard_workers.trainer.weights import Weights

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """How far and in which strides."""

    steps: int
    groups_per_step: int
    commit_every: int
    learning_rate: float


@dataclass
class Loop:
    """One rank from a claim of the job to its end; made by `takeover.take_over`."""

    plan: Plan
    head: Head
    book: Book
    policy: Policy
    feeder: Feeder
    collector: Collector
    intake: Intake
    weights: Weights
    checkpoints: Checkpoints
    board: Board
    tracer: Tracer
    signals: Signals

    async def run(self, stop: asyncio.Event) -> int | None:
        """Train to the end, or to the end of the step in which `stop` is set. The last step, None when it was stopped.

        Raises (in a group) Overtaken when another trainer took the job, BusLost when the bus stays away.
        """
        async with asyncio.TaskGroup() as group:
            beside = (
                self.intake.collect(),
                self.intake.recall_again(),
                self.intake.read_dead_letters(),
                self.feeder.run(),
                self.head.overtaken(),
            )
            tasks = [group.create_task(work) for work in beside]
            await self._learn(stop)
            for task in tasks:
                task.cancel()
        self.board.close()
        return self.book.step if self.book.step >= self.plan.steps else None

    async def _learn(self, stop: asyncio.Event) -> None:
        slot = self.signals.slot
        committed = self.book.step
        ended: float | None = None
        while self.book.step < self.plan.steps:
            waiting = time.monotonic()
            with slot.within(State.STARVED):
                groups = await self.intake.hand_over(self.plan.groups_per_step, stop)
            if groups is None:
                break
            with slot.within(State.BUSY):
                figures = await self._step(groups, started=time.monotonic(), waiting=waiting, ended=ended)
            ended = time.monotonic()
            with slot.within(State.SYNC):
                await self._publish()
                self.board.write(figures)
                if self.book.step % self.plan.commit_every == 0:
                    await self._commit()
                    committed = self.book.step
        if self.book.step > committed:
            with slot.within(State.SYNC):
                await self._commit()

    async def _step(
        self, groups: Sequence[Group], *, started: float, waiting: float, ended: float | None
    ) -> StepFigures:
        """Train on these groups and enter them into the book."""
        trained = [group.trainable for group in groups]
        lags = [lag(experience, self.book.step) for group in trained for experience in group]
        rows = [row for group in trained for row in grpo.rows(group)]
        with ExitStack() as spans:
            for experience in (experience for group in trained for experience in group):
                about = {"step": self.book.step + 1, "staleness": lag(experience, self.book.step)}
                spans.enter_context(self.tracer.follow(experience.id, "train", **about))
            update = await asyncio.to_thread(self.policy.update, rows)
        self.book.train(group.record() for group in groups)
        self.feeder.group_closed()
        now = time.monotonic()
        figures = StepFigures(
            step=self.book.step,
            groups=trained,
            lags=lags,
            update=update,
            learning_rate=self.plan.learning_rate,
            requeued=self.intake.requeued,
            seconds=now - started,
            waited_seconds=started - waiting,
            interval_seconds=now - ended if ended else None,
        )
        self.signals.stepped(figures)
        log.info(
            "step %d: reward %.3f, loss %.4f, %.2f s after a wait of %.2f s",
            figures.step,
            figures.scalars["reward_mean"],
            update.loss,
            figures.seconds,
            figures.waited_seconds,
        )
        return figures

    async def _publish(self) -> None:
        version = PolicyVersion(self.head.epoch, self.book.step)
        await self.weights.publish(self.policy, version)
        self.signals.published(version)

    async def _commit(self) -> None:
        """Snapshot, then the compare-and-set that makes it the job's state, then the acknowledgements it allows."""
        parent = self.head.checkpoint
        name = await asyncio.to_thread(self.checkpoints.write, self.policy, self.book.to_commit(parent))
        await self.head.commit(self.book.step, name)
        self.book.committed()
        for delivery in self.collector.committed():
            await delivery.ack()
        await asyncio.to_thread(self.checkpoints.tidy, name, parent)
        log.info("committed checkpoint %s", name)
