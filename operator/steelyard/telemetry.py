"""The operator's own metrics and its health, served on one port: /metrics and /healthz."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
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
        self.tick_seconds = Histogram(
            f"{PREFIX}_tick_seconds",
            "Time of one round over a job",
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
            registry=registry,
        )
        self.requests = Counter(
            f"{PREFIX}_api_requests", "Requests to the API server", ["verb", "outcome"], registry=registry
        )
        self.revisions = Counter(f"{PREFIX}_revisions", "Revisions recorded, by action", ["action"], registry=registry)

    def count_request(self, verb: str, outcome: str) -> None:
        self.requests.labels(verb, outcome).inc()

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """A gauge that is asked when it is scraped."""
        Gauge(f"{PREFIX}_{name}", what, registry=self.registry).set_function(value)


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
