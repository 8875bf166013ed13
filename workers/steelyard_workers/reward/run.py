"""The reward server's process: takes trajectories, publishes experience, answers /v1/score.

STEELYARD_REWARD_SLOTS says how many trajectories one replica judges at a time, each in a process of its own (1: a judge
that fills its GPU); STEELYARD_REWARD_TIMEOUT_SECONDS after how long a judge that gives no score is ended. The user's
code finds the share of the GPU's memory that it may use in STEELYARD_MEMORY_PERCENT.
"""

import asyncio
import os

from steelyard.api import Stage
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.consume import Consumer
from steelyard_workers.messages import Hop, Trajectory
from steelyard_workers.metrics import BufferMetrics, RewardMetrics
from steelyard_workers.reward.bench import Bench
from steelyard_workers.reward.server import Scorer, add_score_route
from steelyard_workers.termination import UserError
from steelyard_workers.worker import Worker, log_to_stderr


async def serve(job: JobConfig, place: Place, slots: int, timeout_seconds: float) -> None:
    """Score trajectories until drained."""
    spec = job.spec.stages.reward_server
    async with (
        Bench.opened(spec.entrypoint, spec.args, slots, timeout_seconds) as bench,
        Worker.surroundings(Stage.REWARD_SERVER, job, place) as worker,
    ):
        scorer = Scorer(bench, worker.bus, worker.tracer, worker.metrics, RewardMetrics(worker.registry))
        consumer = Consumer(
            worker.bus,
            Trajectory,
            slots,
            scorer.work,
            clock=worker.clock,
            buffer=BufferMetrics(Hop.TRAJECTORIES, worker.registry),
        )
        add_score_route(worker.app, bench, worker.health)
        worker.health.ready()
        await consumer.run(worker.drain, spec.drain_seconds)


def memory_percent(job: JobConfig, profile: str) -> int:
    """The share of its GPU's memory that a replica of this profile may use."""
    shares = {each.name: each.memory_percent for each in job.spec.stages.reward_server.gpu_profiles}
    return shares.get(profile, 100)


def _positive(variable: str, default: str) -> float:
    text = os.environ.get(variable, default)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise UserError(f"{variable} {text!r}: want a number above 0")
    return value


def run() -> None:
    """Load the judges first, so that an unusable entry point ends the process at once."""
    log_to_stderr()
    job, place = JobConfig.load(), Place.from_environment()
    os.environ["STEELYARD_MEMORY_PERCENT"] = str(memory_percent(job, os.environ.get("STEELYARD_PROFILE", "")))
    slots = int(_positive("STEELYARD_REWARD_SLOTS", "1"))
    timeout_seconds = _positive("STEELYARD_REWARD_TIMEOUT_SECONDS", "300")
    asyncio.run(serve(job, place, max(1, slots), timeout_seconds))
