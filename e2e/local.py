"""A pipeline as local processes on loopback: the same programs and variables as in pods, without a cluster.

Tests start, kill and restart its parts by name: `bus`, `trainer`, `environment`, `reward`, `sampler-0`, ...
"""

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.kube import wait_for

ROOT = Path(__file__).parents[1]
TINY = ROOT / "e2e" / "models" / "tiny"
TASKS = ROOT / "e2e" / "models" / "tasks"
JOB = "calculator"
ENGINE = [
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    *("--kv-cache-memory-bytes", "67108864", "--max-num-seqs", "64"),
]


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def job_json(**overrides: Any) -> dict[str, Any]:
    """The job.json of the calculator; `overrides` replace parts of its spec, merged one level deep."""
    spec: dict[str, Any] = {
        "algorithm": {
            "steps": 40,
            "promptsPerStep": 16,
            "groupSize": 8,
            "maxStaleness": 2,
            "args": {"learningRate": "3e-4"},
        },
        "checkpoints": {"everySteps": 4},
        "stages": {
            "environment": {"entrypoint": "steelyard_workers.environment.calculator:environment"},
            "rewardServer": {"entrypoint": "steelyard_workers.reward.calculator:score"},
            "sampler": {"engine": {"args": ENGINE}},
        },
        "buffer": {},
        "tracing": {},
    }
    for part, values in overrides.items():
        spec[part] = {**spec[part], **values}
    return {"name": JOB, "namespace": "local", "uid": "local-job", "spec": spec}


VLLM_ON_CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
"""What the sampler image sets for vLLM where no GPU is."""


class Process:
    """One program of the pipeline, which may be started again after its end."""

    def __init__(self, name: str, argv: list[str], env: Mapping[str, str], log: Path) -> None:
        self.name, self.log = name, log
        self._argv, self._env = argv, dict(env)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, **env: str) -> "Process":
        """Start it, with `env` on top of its usual variables."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv, env={**self._env, **env}, stdout=log, stderr=log, start_new_session=True
            )
        return self

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return dict(self._env)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal when it was killed."""
        return self._child.poll() if self._child else None

    @property
    def runs(self) -> bool:
        """It was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL to it and its children, as when a container dies."""
        self._signal(signal.SIGKILL)

    def stop(self, seconds: float = 30) -> int:
        """SIGTERM; returns its exit code."""
        assert self._child is not None
        self._child.terminate()
        return self.wait(seconds)

    def wait(self, seconds: float) -> int:
        """Its exit code; the end of its log goes into the error when it does not end in time."""
        assert self._child is not None
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} did not end within {seconds:.0f} s:\n{self.tail()}") from None

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._child is None:
            return
        if self._child.poll() is None or number is signal.SIGKILL:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
        self._child.wait()


class Pipeline:
    """All parts of one job below one folder."""

    def __init__(
        self, folder: Path, job: Mapping[str, Any], *, model: Path = TINY, tasks: Path = TASKS, samplers: int = 0
    ):
        self.folder, self.job = folder, job
        self.checkpoints, self.weights = folder / "checkpoints", folder / "weights"
        self._ports: dict[str, int] = {}
        self._parts: dict[str, Process] = {}
        (folder / "job.json").write_text(json.dumps(job))
        names = [f"sampler-{number}" for number in range(samplers)]
        hosts = ",".join(f"127.0.0.1:{self.port(name)}" for name in names)
        self.nats_url = f"nats://127.0.0.1:{self.port('bus')}"
        self._common = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **VLLM_ON_CPU,
            "STEELYARD_CONFIG": str(folder / "job.json"),
            "STEELYARD_MODEL": str(model),
            "STEELYARD_TASKS": str(tasks),
            "STEELYARD_WEIGHTS": str(self.weights),
            "STEELYARD_CHECKPOINTS": str(self.checkpoints),
            "POD_NAMESPACE": "local",
            "NATS_URL": self.nats_url,
            "SAMPLER_HOST": hosts,
        }
        for path in (self.weights, self.checkpoints):
            path.mkdir(exist_ok=True)
        self._parts["bus"] = self._bus()
        for name in ("trainer", "environment", "reward", *names):
            self._parts[name] = self.worker(name, f"steelyard_workers.{name.partition('-')[0]}")

    def __getitem__(self, name: str) -> Process:
        return self._parts[name]

    def port(self, name: str) -> int:
        """The port of a part, the same at every start."""
        return self._ports.setdefault(name, free_port())

    def worker(self, name: str, module: str) -> Process:
        """A Python module as the part `name`."""
        stage, _, profile = name.partition("-")
        env = {
            "POD_NAME": name,
            "POD_UID": f"uid-{name}",
            "STEELYARD_STAGE": "reward-server" if stage == "reward" else stage,
            "STEELYARD_PROFILE": profile or "default",
            "PORT": str(self.port(name)),
            "STEELYARD_TERMINATION_LOG": str(self.folder / f"{name}.termination"),
            "STEELYARD_DRAIN_SOCKET": str(self.folder / f"{name}.sock"),
        }
        argv = [sys.executable, "-m", module]
        part = Process(name, argv, {**self._common, **env}, self.folder / f"{name}.log")
        self._parts[name] = part
        return part

    def start(self, *names: str) -> None:
        """Start parts; the bus is waited for."""
        for name in names:
            self._parts[name].start()
            if name == "bus":
                self.wait_until_ready("bus", 30)

    def is_ready(self, name: str) -> bool:
        """The part answers and is ready."""
        url = f"http://127.0.0.1:{self.port('monitor')}/healthz?js-enabled-only=true"
        if name != "bus":
            url = f"http://127.0.0.1:{self.port(name)}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self, name: str, seconds: float) -> None:
        """Return when a part is ready; an error with its log when it ends or takes too long."""

        def look() -> bool:
            assert self._parts[name].runs, f"{name} ended:\n{self._parts[name].tail()}"
            return self.is_ready(name)

        try:
            wait_for(f"{name} to be ready", look, seconds, every=0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self._parts[name].tail()}") from None

    def termination(self, name: str) -> str:
        """The last words of a part."""
        path = self.folder / f"{name}.termination"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """Kill what still runs."""
        for part in self._parts.values():
            part.kill()

    def _bus(self) -> Process:
        configuration = self.folder / "nats.conf"
        configuration.write_text(
            f'listen: "127.0.0.1:{self.port("bus")}"\n'
            f'http: "127.0.0.1:{self.port("monitor")}"\n'
            "max_payload: 8MB\nmax_pending: 256MB\n"
            f'jetstream {{ store_dir: "{self.folder / "bus"}", sync_interval: always, max_file_store: 2GB }}\n'
        )
        program = Path(sysconfig.get_path("scripts")) / "nats-server"
        return Process("bus", [str(program), "-c", str(configuration)], os.environ, self.folder / "bus.log")


@contextmanager
def pipeline(folder: Path, job: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Pipeline]:
    """A pipeline of which nothing runs yet; whatever runs at the end of the block is killed."""
    parts = Pipeline(folder, job or job_json(), **options)
    try:
        yield parts
    finally:
        parts.close()
