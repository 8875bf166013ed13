"""Worker processes for tests: started like the operator starts them, watched over HTTP, drained, killed."""

import asyncio
import inspect
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from e2e.local import free_port
from steelyard_workers.config import JobConfig
from tests.pipeline import worker_environment

PATIENCE_SECONDS = 60


@dataclass
class WorkerProcess:
    """One worker."""

    process: subprocess.Popen[bytes]
    port: int
    environment: dict[str, str]
    folder: Path

    @property
    def last_words(self) -> str:
        """What it left in its termination log."""
        return (self.folder / "termination-log").read_text()

    async def get(self, path: str) -> httpx.Response | None:
        """None while it does not listen."""
        async with httpx.AsyncClient() as client:
            try:
                return await client.get(f"http://127.0.0.1:{self.port}{path}")
            except httpx.TransportError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                return None

    async def ready(self) -> bool:
        response = await self.get("/readyz")
        return response is not None and response.status_code == 200

    async def metrics(self) -> dict[str, float]:
        """Every series by its name and labels, as they are written."""
        response = await self.get("/metrics")
        assert response is not None
        lines = [line for line in response.text.splitlines() if not line.startswith("#")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    async def drain(self) -> asyncio.subprocess.Process:
        """Start what the kubelet runs before it sends SIGTERM."""
        command = [sys.executable, "-m", "steelyard_workers.drain"]
        return await asyncio.create_subprocess_exec(*command, env=self.environment)

    async def ended(self) -> int:
        """Its exit code, once it has one."""
        return await asyncio.to_thread(self.process.wait, PATIENCE_SECONDS)


@contextmanager
def worker_process(
    module: str, job: JobConfig, folder: Path, nats_url: str, **environment: str
) -> Iterator[WorkerProcess]:
    """`python -m module` for this job while the block runs; then it is killed, if it still lives."""
    port = free_port()
    variables = worker_environment(job, folder, nats_url, PORT=str(port), POD_NAME=folder.name, **environment)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", module], env=variables, stdout=log, stderr=log)
    try:
        yield WorkerProcess(process, port, variables, folder)
    finally:
        process.kill()
        process.wait()


async def until(what: str, true: Callable[[], object]) -> None:
    """Ask again and again, with patience; `true` may be a coroutine function."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = true()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        await asyncio.sleep(0.1)
