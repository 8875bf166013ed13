"""The operator's own metrics and its health, served on one port: /metrics and /healthz."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

PREFIX = "steelyard_operator"


class Telemetry:
    """Counts what the operator does."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.ticks = Counter(f"{PREFIX}_ticks", "Rounds over a job, by how they ended", ["result"], registry=registry)
        self.tick_seconds = self._seconds("tick_seconds", "Time of one round over a job")
        self.requests = Counter(
            f"{PREFIX}_api_requests", "Requests to the API server", ["verb", "outcome"], registry=registry
        )
        self.revisions = Counter(f"{PREFIX}_revisions", "Revisions recorded, by action", ["action"], registry=registry)

        self.pool_ticks = Counter(
            f"{PREFIX}_pool_ticks", "Rounds over a pool, by how they ended", ["result"], registry=registry
        )
        self.pool_tick_seconds = self._seconds("pool_tick_seconds", "Time of one round over a pool")
        self.pools = PoolTelemetry(registry)

    def count_request(self, verb: str, outcome: str) -> None:
        self.requests.labels(verb, outcome).inc()

    def _seconds(self, name: str, what: str) -> Histogram:
        buckets = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
        return Histogram(f"{PREFIX}_{name}", what, buckets=buckets, registry=self.registry)

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """A gauge that is asked when it is scraped."""
        Gauge(f"{PREFIX}_{name}", what, registry=self.registry).set_function(value)


class PoolTelemetry:
    """Who has how much of each pool."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"{PREFIX}_pool_{name}", what, ["pool"], registry=registry)

        self._gauges = {
            "gpus": gauge("gpus", "GPUs of a pool"),
            "granted": gauge("gpus_granted", "GPUs of a pool that jobs may hold"),
            "borrowed": gauge("gpus_borrowed", "GPUs of a pool that jobs hold beyond their guarantees"),
            "used": gauge("gpus_used", "GPUs of a pool that bound pods hold"),
            "jobs": gauge("jobs", "Jobs that want or hold GPUs of a pool"),
            "waiting": gauge("jobs_waiting", "Jobs that wait for their smallest allocation"),
            "longest": gauge("longest_wait_seconds", "How long the job that waits longest has waited"),
        }
        self._grants = Counter(
            f"{PREFIX}_pool_grants", "Grants that changed, by direction", ["pool", "change"], registry=registry
        )

    def show(self, pool: str, figures: Mapping[str, float], raised: int, lowered: int) -> None:
        """The state of a pool after a round, in the words of `pools.report.figures`."""
        for name, gauge in self._gauges.items():
            gauge.labels(pool).set(figures[name])
        self._grants.labels(pool, "raised").inc(raised)
        self._grants.labels(pool, "lowered").inc(lowered)

    def forget(self, pool: str) -> None:
        """A pool that is gone has no figures."""
        for gauge in self._gauges.values():
            gauge.remove(pool)
        for change in ("raised", "lowered"):
            self._grants.remove(pool, change)


@asynccontextmanager
async def serving(telemetry: Telemetry, port: int, complaints: Callable[[], list[str]]) -> AsyncIterator[int]:
    """Serve while the block runs. /healthz fails with the complaints, so that the kubelet restarts a deaf operator."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(telemetry.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        said = complaints()
        return web.Response(text="\n".join(said) or "ok", status=503 if said else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "0.0.0.0", port)  # noqa: S104 - Prometheus and the kubelet come from outside the pod
    try:
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
