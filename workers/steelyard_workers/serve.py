"""The HTTP face of every worker: /metrics, /healthz, /readyz, served inside the worker's own event loop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, disable_created_metrics, generate_latest

from steelyard_workers.drain import Drain
from steelyard_workers.termination import write_termination

log = logging.getLogger(__name__)


class Health:
    """Whether this worker may be sent work and whether it still works; each 'no' carries its reason.

    A worker that drains is not ready, whatever else it says.
    """

    def __init__(self, drain: Drain | None = None) -> None:
        self._drain = drain
        self._unready: str | None = "starting"
        self.dead: str | None = None

    @property
    def unready(self) -> str | None:
        """Why no work should be sent, None when it may be."""
        draining = self._drain is not None and self._drain.requested.is_set()
        return self.dead or ("draining" if draining else self._unready)

    def ready(self) -> None:
        """Send work from now on."""
        self._unready = None

    def die(self, reason: str) -> None:
        """Ask to be restarted, because of `reason`."""
        log.error("asking to be restarted: %s", reason)
        write_termination(reason)
        self.dead = reason


def worker_app(health: Health, registry: CollectorRegistry) -> FastAPI:
    """An application with the three routes that Prometheus and the kubelet ask; a stage may add its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
    app = FastAPI(openapi_url=None)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    async def healthz() -> Response:
        return _verdict(health.dead)

    @app.get("/readyz")
    async def readyz() -> Response:
        return _verdict(health.unready)

    return app


def _verdict(objection: str | None) -> Response:
    return PlainTextResponse(objection or "ok", status_code=503 if objection else 200)


@asynccontextmanager
async def serving(
    app: FastAPI,
    port: int,
    host: str = "0.0.0.0",  # noqa: S104 - pods are scraped
    grace_seconds: int = 5,
) -> AsyncIterator[int]:
    """Serve `app` while the block runs; yields the port, chosen by the system when 0 was asked for.

    Requests that are being answered when the block ends have `grace_seconds` to get their answer.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    server = _Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=grace_seconds)
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if task.done():
                await task
                raise RuntimeError("the HTTP server ended before it started")
            await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the worker drains on SIGTERM and ends its server itself."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
