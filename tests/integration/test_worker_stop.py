"""A worker that is told to stop before it has begun: scaled down again, or its node drained, while it still imports.

As a container's main process it would not even hear a SIGTERM that it does not handle, and keep its GPU for the whole
grace of its pod.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard_workers.termination import STOPPED

SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("importing").touch()
time.sleep(60)
"""
SOON = 30.0


@pytest.mark.parametrize("worker", ["sampler", "environment", "reward", "trainer", "bus_exporter"])
def test_a_worker_that_is_told_to_stop_while_it_imports_its_parts_ends_at_once(worker: str, tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-m", f"steelyard_workers.{worker}"], env=environment) as process:
        try:
            end = time.monotonic() + SOON
            while not (tmp_path / "importing").exists() and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON) == STOPPED
        finally:
            process.kill()
