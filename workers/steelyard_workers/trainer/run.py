"""Trains the job that the environment names, from its last commit to its end or to a stop."""

import asyncio
import logging
import os

import torch

from steelyard.api import Stage
from steelyard_workers.bus_keys import Overtaken
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.loop import Ending
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.settings import Settings
from steelyard_workers.trainer.signals import Signals
from steelyard_workers.trainer.takeover import take_over
from steelyard_workers.worker import Worker

log = logging.getLogger("steelyard_workers.trainer")


def train() -> Ending:
    """How it ended. Raises UserError for what only the user can mend, BusLost when the bus stays away."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    try:
        return asyncio.run(_run())
    except* Overtaken as group:
        log.warning("another trainer has the job: %s", group.exceptions[0])
    return Ending.STOPPED


async def _run() -> Ending:
    """With HTTP and drain answered meanwhile."""
    job, place = JobConfig.load(), Place.from_environment()
    settings = Settings.parse(job.spec.algorithm.args)
    dataset = Dataset.load(place.tasks, job.spec.algorithm.seed)
    async with Worker.surroundings(Stage.TRAINER, job, place) as worker:
        signals = Signals(worker)
        policy = await asyncio.to_thread(Policy, place.model, settings)
        loop = await take_over(worker=worker, policy=policy, settings=settings, dataset=dataset, signals=signals)
        worker.health.ready()
        return await loop.run(worker.drain.requested)
