"""The environment's process: takes tasks, publishes trajectories."""

import asyncio
import os

from steelyard.api import Stage
from steelyard_workers.clock import State
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.consume import Consumer
from steelyard_workers.environment.protocol import Environment
from steelyard_workers.environment.runner import Runner
from steelyard_workers.environment.samplers import Samplers
from steelyard_workers.environment.tokens import Tokenizer
from steelyard_workers.latest import Latest
from steelyard_workers.messages import Hop, Task
from steelyard_workers.metrics import BufferMetrics, EpisodeMetrics
from steelyard_workers.plugins import construct
from steelyard_workers.worker import Worker, log_to_stderr

SAMPLER_PORT = 8000


async def serve(job: JobConfig, place: Place, environment: Environment, tokenizer: Tokenizer) -> None:
    """Play episodes until drained."""
    spec = job.spec.stages.environment
    async with (
        Worker.surroundings(Stage.ENVIRONMENT, job, place) as worker,
        Samplers.connected(os.environ.get("SAMPLER_HOST", f"{job.name}-sampler"), SAMPLER_PORT) as samplers,
    ):
        admitted = Latest(worker.bus.keys, "admitted")
        runner = Runner(
            environment,
            spec.episode,
            bus=worker.bus,
            samplers=samplers,
            tokenizer=tokenizer,
            tracer=worker.tracer,
            stage=worker.metrics,
            episodes=EpisodeMetrics(worker.registry),
        )
        consumer = Consumer(
            worker.bus,
            Task,
            spec.concurrency,
            runner.work,
            clock=worker.clock,
            buffer=BufferMetrics(Hop.TASKS, worker.registry),
            waiting=lambda: State.PACED if (admitted.value or {}).get("closed") else State.STARVED,
        )
        async with asyncio.TaskGroup() as group:
            following = group.create_task(admitted.follow())
            worker.health.ready()
            await consumer.run(worker.drain, spec.drain_seconds)
            following.cancel()


def run() -> None:
    """Load the user's environment before anything else, so that its mistakes end the process at once."""
    log_to_stderr()
    job, place = JobConfig.load(), Place.from_environment()
    spec = job.spec.stages.environment
    environment: Environment = construct(spec.entrypoint, "stages.environment.entrypoint", spec.args)
    asyncio.run(serve(job, place, environment, Tokenizer.load(place.model)))
