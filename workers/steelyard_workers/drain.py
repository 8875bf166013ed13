"""Draining before a pod ends: the preStop hook asks over a unix socket and waits until nothing would be lost.

`python -m steelyard_workers.drain` is the hook. Inside the worker a `Drain` says when to stop taking work and is told
when everything taken is finished or handed back. The kubelet's grace period bounds the wait, not this module.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

DRAINED = b"drained\n"

log = logging.getLogger(__name__)


def socket_path() -> Path:
    """Where hook and worker meet."""
    return Path(os.environ.get("STEELYARD_DRAIN_SOCKET", "/tmp/steelyard-drain.sock"))  # noqa: S108 - one per container


class Drain:
    """One way only: running, requested, done."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.done = asyncio.Event()

    def request(self) -> None:
        """Take no new work from now on."""
        if not self.requested.is_set():
            log.info("draining")
            self.requested.set()

    def finish(self) -> None:
        """Everything taken is finished or handed back: the pod may end."""
        self.requested.set()
        self.done.set()

    @asynccontextmanager
    async def listening(self, path: Path | None = None, *, on_sigterm: bool = True) -> AsyncIterator["Drain"]:
        """Answer hooks while the block runs. SIGTERM asks for the same, unless somebody else handles it."""
        path = path or socket_path()
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, path)
        if on_sigterm:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.request)
        try:
            yield self
        finally:
            self.finish()
            server.close()
            await server.wait_closed()
            path.unlink(missing_ok=True)
            if on_sigterm:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request()
        await self.done.wait()
        with suppress(ConnectionError):
            writer.write(DRAINED)
            await writer.drain()
        writer.close()


async def first_of(*events: asyncio.Event) -> None:
    """Returns when one of them is set, such as news of work or the request to drain."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def main() -> int:
    """The preStop hook: returns 0 once the worker is drained or not there, 1 when it went away while draining."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(socket_path()))
        except (FileNotFoundError, ConnectionRefusedError):
            print("no worker listens: nothing to drain", file=sys.stderr)  # noqa: T201 - a hook speaks on stderr
            return 0
        try:
            return 0 if client.recv(len(DRAINED)) == DRAINED else 1
        except ConnectionError:
            return 1


if __name__ == "__main__":
    sys.exit(main())
