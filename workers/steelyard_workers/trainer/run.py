"""Trains the job of an assignment, from its last commit to its end or to a stop."""

import asyncio
import logging
import os

import torch

from steelyard.api import Stage
from steelyard_workers.bus_keys import Overtaken
from steelyard_workers.trainer.assignment import Assignment
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.signals import Signals
from steelyard_workers.trainer.takeover import take_over
from steelyard_workers.worker import Worker

log = logging.getLogger("steelyard_workers.trainer")


def train(assignment: Assignment) -> int | None:
    """The last step of a job that is complete, None when it was stopped before.

    Raises UserError for what only the user can mend, BusLost when the bus stays away.
    """
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    try:
        return asyncio.run(_run(assignment))
    except* Overtaken as group:
        log.warning("another trainer has the job: %s", group.exceptions[0])
    return None


async def _run(assignment: Assignment) -> int | None:
    """With HTTP and drain answered meanwhile."""
    async with Worker.surroundings(Stage.TRAINER, assignment.job, assignment.place) as worker:
        signals = Signals(worker)
        policy = await asyncio.to_thread(Policy, assignment.place.model, assignment.settings)
        loop = await take_over(worker=worker, policy=policy, assignment=assignment, signals=signals)
        worker.health.ready()
        return await loop.run(worker.drain.requested)
