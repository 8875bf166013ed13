"""How long and how often a worker asks a bus that does not answer, and when it stops asking."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import nats.errors
import nats.js.errors

T = TypeVar("T")

REQUEST_SECONDS = 2.0
PATIENCE_SECONDS = 300.0
LEAVING_SECONDS = 10.0
UNREACHABLE = (TimeoutError, OSError, nats.errors.Error)

log = logging.getLogger(__name__)


class BusLost(Exception):
    """The bus did not answer for so long that this worker should end and start anew."""


class BusDenied(Exception):
    """The bus forbids this worker a subject; the message is the server's own."""


def pauses(first: float = 0.02, longest: float = 0.5) -> Iterator[float]:
    """Growing pauses with jitter, without end."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
        pause = min(2 * pause, longest)


@contextmanager
def cancellable() -> Iterator[None]:
    """A cancellation that comes while the block runs ends it, whatever the block makes of it.

    asyncio.wait_for of Python 3.11, inside the NATS client, swallows one that comes together with an answer.
    """
    task = asyncio.current_task()
    assert task is not None, "called outside a task"
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


class Patience:
    """Bounds every retry. Tells a forbidden subject from a server that is away: both look like time-outs."""

    def __init__(self, is_connected: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        self._is_connected = is_connected
        self._seconds = seconds
        self._away_since = time.monotonic()
        self.complaint = ""

    def hurry(self) -> None:
        """This worker was told to stop: a bus that is gone, as after the job's deletion, must not keep it."""
        self._seconds = LEAVING_SECONDS

    async def lost(self) -> None:
        """The client's callback for a connection that is gone: only now patience begins to run out."""
        self._away_since = time.monotonic()

    async def complain(self, error: Exception) -> None:
        """The client's error callback: the only place where it says why a request got no answer."""
        if str(error) != self.complaint:
            log.warning("bus: %s", error)
        self.complaint = str(error)

    def check(self, subject: str, error: Exception) -> None:
        """Return when asking again makes sense after `error`; else raise BusDenied, BusLost or the error itself."""
        if "permissions violation" in self.complaint.lower() and subject.lower() in self.complaint.lower():
            raise BusDenied(self.complaint) from error
        if isinstance(error, nats.js.errors.APIError) and error.code is not None and error.code < 500:
            raise error
        if not self._is_connected() and time.monotonic() - self._away_since > self._seconds:
            raise BusLost(f"{subject}: no answer for {self._seconds:.0f} s; {error}; {self.complaint}") from error

    async def retry(self, subject: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` until it gets an answer."""
        started, said = time.monotonic(), ""
        for pause in pauses():
            try:
                with cancellable():
                    result = await attempt()
            except UNREACHABLE as error:
                self.check(subject, error)
                if said != (said := f"{type(error).__name__}: {error}"):
                    log.warning("bus: %s: %s; asking again", subject, said)
                if time.monotonic() - started > self._seconds:
                    raise BusLost(f"{subject}: no answer for {self._seconds:.0f} s; {error}") from error
                await asyncio.sleep(pause)
            else:
                return result
        raise AssertionError("pauses never end")
