"""`python -m steelyard_workers.trainer`: exit 0 when the last step is committed, 75 when stopped after a commit."""

import asyncio
import json
import logging
import os
import sys

import torch

from steelyard.api import Stage
from steelyard_workers.bus_keys import Overtaken
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.termination import STOPPED, reported, write_termination
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.loop import Ending
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.settings import Settings
from steelyard_workers.trainer.signals import Signals
from steelyard_workers.trainer.takeover import take_over
from steelyard_workers.worker import Worker, log_to_stderr

log = logging.getLogger("steelyard_workers.trainer")


async def run() -> Ending:
    """Train the job that the environment names, with HTTP and drain answered meanwhile."""
    job, place = JobConfig.load(), Place.from_environment()
    settings = Settings.parse(job.spec.algorithm.args)
    dataset = Dataset.load(place.tasks, job.spec.algorithm.seed)
    async with Worker.surroundings(Stage.TRAINER, job, place) as worker:
        signals = Signals(worker)
        policy = await asyncio.to_thread(Policy, place.model, settings)
        loop = await take_over(worker=worker, policy=policy, settings=settings, dataset=dataset, signals=signals)
        worker.health.ready()
        return await loop.run(worker.drain.requested)


def main() -> int:
    """Run and say how it ended, in the exit code and in the termination log."""
    log_to_stderr()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    with reported():
        try:
            ending = asyncio.run(run())
        except* Overtaken as group:
            log.warning("another trainer has the job: %s", group.exceptions[0])
            ending = Ending.STOPPED
    if ending is Ending.STOPPED:
        return STOPPED
    write_termination(json.dumps({"complete": True, "step": JobConfig.load().spec.algorithm.steps}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
