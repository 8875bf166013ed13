"""Wraps vLLM's application (--middleware): guards its routes, stamps answers with the policy version, keeps the engine
at the newest weights, drains. It lives in the server's own process and event loop, so a request takes no extra hop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import REGISTRY

from steelyard.api import Stage
from steelyard_workers.bus import Bus
from steelyard_workers.bus_patience import BusLost
from steelyard_workers.clock import Clock
from steelyard_workers.config import JobConfig, Place
from steelyard_workers.drain import Drain
from steelyard_workers.latest import Latest
from steelyard_workers.metrics import ClockCollector, PolicyMetrics
from steelyard_workers.sampler.engine import Engine, VllmEngine
from steelyard_workers.sampler.follower import EngineUnfit, Follower
from steelyard_workers.sampler.progress import Progress, engine_tokens
from steelyard_workers.sampler.traffic import TOKENS, Traffic, admitted
from steelyard_workers.sampler_protocol import VERSION_HEADER, format_versions
from steelyard_workers.serve import Health

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOK_SECONDS = 10.0

log = logging.getLogger(__name__)


class Middleware:
    """One per server. vLLM makes it without arguments but the application; the job comes from the environment."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._job, self._place = JobConfig.load(), Place.from_environment()
        self._drain = Drain()
        self._health = Health(self._drain)
        clock = Clock()
        self._traffic = Traffic(clock)
        self._metrics = PolicyMetrics(REGISTRY)
        REGISTRY.register(ClockCollector(Stage.SAMPLER.value, clock, lambda: self._traffic.running))
        self._follower: Follower | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The server's life, a request, or what else there is (web sockets), which stays inside."""
        if scope["type"] == "lifespan":
            async with self._alive(VllmEngine(scope["app"].state.engine_client)):
                await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif admitted(scope["path"], scope.get("client")):
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "answered only inside the pod"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/")
        if not admitted(path, scope.get("client")):
            await _answer(send, 403, "answered only inside the pod")
        elif path == "/readyz":
            objection = self._health.unready or (self._follower and self._follower.objection)
            await _answer(send, 503 if objection else 200, objection or "ok")
        elif path == "/healthz" and self._health.dead:
            await _answer(send, 503, self._health.dead)
        elif path == "/healthz":
            await self._app({**scope, "path": "/health", "raw_path": b"/health"}, receive, send)
        elif path not in TOKENS:
            await self._app(scope, receive, self._stamped(send))
        elif self._drain.requested.is_set():
            await _answer(send, 503, "draining", ((b"retry-after", b"5"),))
        else:
            with self._traffic.request():
                await self._app(scope, receive, self._stamped(send))

    def _stamped(self, send: Send) -> Send:
        assert self._follower is not None, "requests come after the start of the server's life"
        follower, first = self._follower, self._follower.version

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                version = format_versions(first, follower.version).encode()
                message["headers"] = [*message.get("headers", ()), (VERSION_HEADER.lower().encode(), version)]
            await send(message)

        return stamped

    @asynccontextmanager
    async def _alive(self, engine: Engine) -> AsyncIterator[None]:
        self._follower = follower = Follower(
            engine,
            self._place.weights,
            self._job.spec.algorithm.max_staleness,
            syncing=self._traffic.syncing,
            updated=lambda version: self._metrics.set(version.epoch, version.step),
        )
        self._metrics.set(*follower.version)
        self._health.ready()
        async with self._drain.listening(on_sigterm=False):
            tasks = [
                asyncio.create_task(duty(follower)) for duty in (self._keep_up, self._leave_in_order, self._look_after)
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_up(self, follower: Follower) -> None:
        """Follow the pointer. A bus that is away stops the updates, not the service."""
        while True:
            try:
                async with Bus.connected(self._place.nats_url, self._job, self._place.pod) as bus:
                    await self._follow(bus, follower)
            except BusLost as error:
                log.warning("%s", error)
            except Exception as error:
                self._health.die(f"{type(error).__name__}: {error}")
                raise

    async def _follow(self, bus: Bus, follower: Follower) -> None:
        pointer = Latest(bus.keys, "policy")
        async with asyncio.TaskGroup() as group:
            group.create_task(pointer.follow())
            try:
                await follower.follow(pointer)
            except EngineUnfit as error:
                self._health.die(str(error))

    async def _leave_in_order(self, _: Follower) -> None:
        """Once asked to drain: running requests finish, then the hook may return."""
        await self._drain.requested.wait()
        await self._traffic.drain(self._job.spec.stages.sampler.drain_seconds)
        self._drain.finish()

    async def _look_after(self, _: Follower) -> None:
        """Ask to be restarted when the engine stands still with requests in hand."""
        progress = Progress(lambda: engine_tokens(REGISTRY))
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if objection := progress.objection(self._traffic.running, self._traffic.is_syncing):
                self._health.die(objection)


async def _answer(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    body = text.encode()
    fixed = ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})
