"""The operator's own metrics and its health, served on one port: /metrics and /healthz."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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

from steelyard.telemetry.jobs import JobTelemetry
from steelyard.telemetry.pools import PoolTelemetry

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
        self.request_seconds = self._seconds("api_request_seconds", "Time until the API server answered", ["verb"])
        self.metrics_reads = Counter(
            f"{PREFIX}_metrics_reads",
            "Reads of a job's metrics: ok, or why Prometheus gave none",
            ["outcome"],
            registry=registry,
        )
        self.metrics_read_seconds = self._seconds("metrics_read_seconds", "Time of one read of a job's metrics")
        self.revisions = Counter(f"{PREFIX}_revisions", "Revisions recorded, by action", ["action"], registry=registry)
        self.lease_held = Gauge(f"{PREFIX}_lease_held", "Whether this operator may act", registry=registry)
        self.under_control = Gauge(f"{PREFIX}_jobs", "Jobs under control", registry=registry)
        self.silence = Gauge(f"{PREFIX}_watch_silence_seconds", "Longest silence of a watch", registry=registry)
        self.pool_ticks = Counter(
            f"{PREFIX}_pool_ticks", "Rounds over a pool, by how they ended", ["result"], registry=registry
        )
        self.pool_tick_seconds = self._seconds("pool_tick_seconds", "Time of one round over a pool")
        self.pools = PoolTelemetry(registry)
        self.jobs = JobTelemetry(registry)

    def count_request(self, verb: str, outcome: str, seconds: float) -> None:
        """A request was answered after so long, or not at all; a watch is answered when it begins."""
        self.requests.labels(verb, outcome).inc()
        self.request_seconds.labels(verb).observe(seconds)

    def _seconds(self, name: str, what: str, labels: Sequence[str] = ()) -> Histogram:
        buckets = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
        return Histogram(f"{PREFIX}_{name}", what, labels, buckets=buckets, registry=self.registry)


@asynccontextmanager
async def serving(telemetry: Telemetry, port: int, checks: Mapping[str, Callable[[], list[str]]]) -> AsyncIterator[int]:
    """Serve while the block runs. `checks` are paths and what is wrong there; one that finds something answers 503."""

    async def metrics(_: web.Request) -> web.Response:
        page = await asyncio.to_thread(generate_latest, telemetry.registry)  # half a second for a thousand jobs
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def check(request: web.Request) -> web.Response:
        said = checks[request.path]()
        return web.Response(text="\n".join(said) or "ok", status=503 if said else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), *(web.get(path, check) for path in checks)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "0.0.0.0", port)  # noqa: S104 - Prometheus and the kubelet come from outside the pod
    try:
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
