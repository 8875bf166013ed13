"""A vLLM server as a process of its own, and a trainer as far as samplers see one: `Publisher`.

The publisher's figures come from transformers, an implementation of the model that is not vLLM's.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from e2e.local import TINY, VLLM_ON_CPU, free_port
from steelyard_workers.bus import Bus
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler.canary import FILE
from steelyard_workers.sampler_protocol import MODEL_NAME, VERSION_HEADER
from tests.pipeline import job_config, nats_server, worker_environment

START_SECONDS = 300
PATIENCE_SECONDS = 60
FLAGS = [
    "--dtype",
    "float32",
    "--enforce-eager",
    "--max-model-len",
    "512",
    "--kv-cache-memory-bytes",
    "67108864",
    "--max-num-seqs",
    "16",
]
PROMPT = [4 + (7 * place) % 80 for place in range(300)]  # longer than the 128 tokens of a cache block on CPUs
CANARY = PROMPT[:40]
LONG = 450


@dataclass
class Sampler:
    """A running sampler and how to talk to it."""

    job: JobConfig
    nats_url: str
    port: int
    environment: dict[str, str]
    log: Path

    def get(self, path: str, host: str = "127.0.0.1") -> httpx.Response:
        return httpx.get(f"http://{host}:{self.port}{path}", timeout=30)

    def post(self, path: str, host: str = "127.0.0.1", body: Any = None) -> httpx.Response:
        return httpx.post(f"http://{host}:{self.port}{path}", json=body, timeout=120)

    def complete(self, prompt: Sequence[int], max_tokens: int = 4) -> httpx.Response:
        """Greedy, with log-probabilities."""
        body = {
            "model": MODEL_NAME,
            "prompt": list(prompt),
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": 0,
        }
        return self.post("/v1/completions", body=body)

    def wait_for(self, what: str, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
            time.sleep(0.1)

    def wait_for_version(self, version: str) -> None:
        self.wait_for(f"version {version}", lambda: self.get("/version").headers[VERSION_HEADER] == version)


class Publisher:
    """The trainer, as far as samplers see it: folders of weights with their canary, and the pointer."""

    def __init__(self, sampler: Sampler) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch, self._load = torch, AutoModelForCausalLM.from_pretrained
        self._sampler = sampler
        self._weights = Path(sampler.environment["STEELYARD_WEIGHTS"])
        self._weights.mkdir(exist_ok=True)

    def write(self, version: str, noise_seed: int, noise: float = 0.05) -> Path:
        """The base model with noise in all its weights, and what it makes of the canary."""
        model = self._load(TINY, dtype=self._torch.float32)
        generator = self._torch.Generator().manual_seed(noise_seed)
        with self._torch.no_grad():
            for parameter in model.parameters():
                parameter += noise * self._torch.randn(parameter.shape, generator=generator)
        folder = self._weights / version
        model.save_pretrained(folder)
        canary = {"tokens": CANARY, "logprobs": self.logprobs(folder, CANARY)}
        (folder / FILE).write_text(json.dumps(canary))
        return folder

    def logprobs(self, folder: Path, tokens: Sequence[int]) -> list[float]:
        """The log-probability of each token but the first."""
        model = self._load(folder, dtype=self._torch.float32)
        with self._torch.no_grad():
            logits = model(self._torch.tensor([list(tokens)])).logits[0, :-1]
        chosen = self._torch.tensor(list(tokens[1:]))[:, None]
        result: list[float] = logits.log_softmax(-1).gather(-1, chosen)[:, 0].tolist()
        return result

    def point(self, version: str) -> None:
        """Make a version the newest."""
        epoch, step = PolicyVersion.parse(version)
        asyncio.run(self._on_bus(lambda bus: bus.keys.write("policy", {"epoch": epoch, "step": step, "path": version})))

    async def _on_bus(self, act: Callable[[Bus], Awaitable[object]]) -> None:
        async with Bus.connected(self._sampler.nats_url, self._sampler.job, "trainer") as bus:
            await act(bus)


@contextmanager
def running_sampler(folder: Path) -> Iterator[Sampler]:
    """A sampler that is ready, with a bus of its own."""
    job = job_config(stages={"sampler": {"engine": {"args": FLAGS}, "drainSeconds": 60}}, algorithm={"maxStaleness": 1})
    port = free_port()
    log = folder / "log"
    with nats_server(folder / "nats") as nats, log.open("wb") as output:
        environment = worker_environment(
            job,
            folder,
            nats.url,
            PORT=str(port),
            STEELYARD_MODEL=str(TINY),
            **VLLM_ON_CPU,
        )
        command = [sys.executable, "-m", "steelyard_workers.sampler"]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        sampler = Sampler(job, nats.url, port, environment, log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _is_ready(sampler):
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.5)
            yield sampler
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def _is_ready(sampler: Sampler) -> bool:
    try:
        return sampler.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def load(sampler: Sampler, clients: int = 3) -> Iterator[list[httpx.Response]]:
    """Long requests, one after the other from each client, until the block ends; yields the answers so far."""
    answers: list[httpx.Response] = []
    ended = threading.Event()

    def client() -> None:
        while not ended.is_set():
            answers.append(sampler.complete(PROMPT[:8], LONG))
            if answers[-1].status_code != 200:
                time.sleep(0.1)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()
