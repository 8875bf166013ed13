"""Requests as they come and go: who may ask what, how many write tokens, and what the engine's slot does meanwhile."""

import asyncio
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from steelyard_workers.clock import Clock, State

TOKENS = frozenset(
    {"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/inference/v1/generate"}
)
"""Routes that make the policy write: counted, stamped with the version, refused while draining."""

OPEN = TOKENS | {
    "/v1/models",
    "/tokenize",
    "/detokenize",
    "/metrics",
    "/health",
    "/healthz",
    "/readyz",
    "/load",
    "/ping",
    "/version",
}
"""All that a peer outside the pod may ask. Whatever else vLLM offers, now or in its next release, stays in the pod."""


def admitted(path: str, client: tuple[str, int] | None) -> bool:
    """Whether this peer may ask this route; no address means a unix socket."""
    return path.rstrip("/") in OPEN or client is None or _is_loopback(client[0])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Traffic:
    """The engine as one slot: busy while a request runs, starved else; an update or a drain comes before either."""

    def __init__(self, clock: Clock) -> None:
        self._slot = clock.open()
        self.is_syncing = False
        self._draining = False
        self.running = 0
        self.idle = asyncio.Event()
        self.idle.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request for tokens runs."""
        self._change(running=1)
        try:
            yield
        finally:
            self._change(running=-1)

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """The weights are being replaced."""
        self.is_syncing = True
        self._change()
        try:
            yield
        finally:
            self.is_syncing = False
            self._change()

    async def drain(self, seconds: float) -> None:
        """From now on the slot drains; returns when no request runs, or after so many seconds."""
        self._draining = True
        self._change()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.idle.wait()

    def _change(self, running: int = 0) -> None:
        self.running += running
        if self.running:
            self.idle.clear()
        else:
            self.idle.set()
        busy = State.BUSY if self.running else State.STARVED
        self._slot.enter(State.SYNC if self.is_syncing else State.DRAIN if self._draining else busy)
