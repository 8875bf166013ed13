"""How a trainer takes a job over: claim the epoch, resume from the head, call back what the last holder held."""

import asyncio
import logging

from steelyard_workers.messages import Hop, PolicyVersion
from steelyard_workers.trainer.assignment import Assignment
from steelyard_workers.trainer.board import Board
from steelyard_workers.trainer.checkpoint import Checkpoints
from steelyard_workers.trainer.collector import Collector
from steelyard_workers.trainer.feeder import Feeder
from steelyard_workers.trainer.head import Head
from steelyard_workers.trainer.intake import Intake
from steelyard_workers.trainer.ledger import Book, Ledger
from steelyard_workers.trainer.loop import Loop, Plan
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.signals import Signals
from steelyard_workers.trainer.weights import Weights
from steelyard_workers.worker import Worker

log = logging.getLogger(__name__)


async def take_over(*, worker: Worker, policy: Policy, assignment: Assignment, signals: Signals) -> Loop:
    """Everything a trainer is, at the state the head names. From the claim on, earlier epochs can commit nothing.

    Raises Overtaken when another trainer was faster, UserError when the checkpoint is not of this model.
    """
    job, place, dataset = assignment.job, assignment.place, assignment.dataset
    bus = worker.bus
    algorithm = job.spec.algorithm
    checkpoints = Checkpoints(place.checkpoints)
    head = await Head.claim(bus.keys, place.pod_uid, checkpoints.newest)
    ledger = await asyncio.to_thread(_resume, checkpoints, head, policy)
    log.info("epoch %d takes over at step %d", head.epoch, ledger.step)

    book = Book(ledger, head.epoch)
    collector = Collector(algorithm.group_size)
    feeder = Feeder(bus, dataset, book, job)
    weights = Weights(place.weights, bus.keys, keep=algorithm.max_staleness + 2, dtype=policy.dtype)
    version = PolicyVersion(head.epoch, ledger.step)
    await weights.publish(policy, version)
    signals.published(version)
    await bus.recall(Hop.EXPERIENCE)
    await feeder.restore()

    return Loop(
        plan=Plan(
            algorithm.steps,
            algorithm.prompts_per_step,
            job.spec.checkpoints.every_steps,
            assignment.settings.learning_rate,
        ),
        head=head,
        book=book,
        policy=policy,
        feeder=feeder,
        collector=collector,
        intake=Intake(
            bus=bus,
            book=book,
            collector=collector,
            dataset=dataset,
            feeder=feeder,
            limits=policy.limits,
            max_staleness=algorithm.max_staleness,
            signals=signals,
        ),
        weights=weights,
        checkpoints=checkpoints,
        tracer=worker.tracer,
        board=Board(place.checkpoints / "tensorboard", ledger.step),
        signals=signals,
    )


def _resume(checkpoints: Checkpoints, head: Head, policy: Policy) -> Ledger:
    """Put the head's checkpoint into `policy` and return its ledger; an empty one before the first commit."""
    ledger = Ledger()
    if head.checkpoint is not None:
        ledger = checkpoints.ledger(head.checkpoint)
        checkpoints.load(head.checkpoint, policy)
    checkpoints.discard_garbage(head.epoch, head.checkpoint)
    return ledger
