"""Whoever is told to stop before it has begun, because it was scaled down again or its node is drained, ends at once.

As a container's main process it would not even hear a SIGTERM that it does not handle, and keep its GPU or its Lease
for the whole grace of its pod.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from steelyard_workers.termination import STOPPED

SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("importing").touch()
time.sleep(60)
"""
SOON = 30.0


WORKERS = ("sampler", "environment", "reward", "trainer", "bus_exporter")


@pytest.mark.parametrize(
    ("module", "code"), [("steelyard", 0), *((f"steelyard_workers.{worker}", STOPPED) for worker in WORKERS)]
)
def test_who_is_told_to_stop_while_it_imports_its_parts_ends_at_once(module: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-m", module], env=environment) as process:
        try:
            end = time.monotonic() + SOON
            while not (tmp_path / "importing").exists() and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON) == code
        finally:
            process.kill()


def test_an_operator_that_has_not_read_everything_yet_ends_when_it_is_told_to(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    environment = {**os.environ, "STEELYARD_KUBECONFIG": str(tmp_path / "kubeconfig"), "STEELYARD_HTTP_PORT": "0"}
    command = [sys.executable, "-m", "steelyard"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as operator:
        assert operator.stderr is not None
        while "does not answer" not in operator.stderr.readline():
            assert operator.poll() is None
        operator.terminate()
        _, said = operator.communicate(timeout=30)

    assert operator.returncode == 0
    assert "told to stop" in said
