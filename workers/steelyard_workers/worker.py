"""What the environment and the reward server have in common around their work: bus, HTTP, drain, clock, traces."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from steelyard.api import Stage, StageSpec
from steelyard_workers.bus import Bus
from steelyard_workers.clock import Clock
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.drain import Drain
from steelyard_workers.metrics import StageMetrics
from steelyard_workers.serve import Health, serving, worker_app
from steelyard_workers.trace import BusSpans, Tracer


@dataclass(frozen=True)
class Worker:
    """The surroundings of one worker process."""

    job: JobConfig
    place: Place
    bus: Bus
    clock: Clock
    drain: Drain
    health: Health
    registry: CollectorRegistry
    metrics: StageMetrics
    tracer: Tracer
    app: FastAPI

    @classmethod
    @asynccontextmanager
    async def surroundings(cls, stage: Stage, job: JobConfig, place: Place) -> AsyncIterator["Worker"]:
        """Connected, scraped and drainable while the block runs; not ready until the block says so.

        The block ends when the stage's work is finished or handed back; a preStop hook returns once all else is closed.
        """
        spec: StageSpec = getattr(job.spec.stages, stage.attribute)
        drain, clock, registry = Drain(), Clock(), CollectorRegistry()
        health, spans = Health(drain), BusSpans()
        tracer = Tracer(
            job=job.name,
            job_uid=job.uid,
            stage=stage.value,
            pod=place.pod,
            sample_percent=job.spec.tracing.sample_percent,
            spans=spans,
        )
        metrics = StageMetrics(stage.value, clock, lambda: clock.working, registry)
        app = worker_app(health, registry)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(drain.listening())
            await stack.enter_async_context(serving(app, place.port, grace_seconds=spec.drain_seconds))
            connection = Bus.connected(
                place.nats_url, job, place.pod, drain.requested, set_bounds=stage is Stage.TRAINER
            )
            bus = await stack.enter_async_context(connection)
            await stack.enter_async_context(spans.exporting(bus.publish))
            yield cls(job, place, bus, clock, drain, health, registry, metrics, tracer, app)


def log_to_stderr() -> None:
    """One line per event, with time and origin."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
