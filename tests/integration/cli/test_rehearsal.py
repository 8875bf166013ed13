"""A rehearsal that is stopped in the middle, gently or not, on a real API server.

No kubelet forwards ports here, so no rung comes to its end; that it does is shown on a real node.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.kube import wait_for
from tests.builders import job_manifest
from tests.integration.cli.conftest import PROGRAM
from tests.integration.operator.operating import Operated

FIRST = "calculator-rehearsal-1"
SECONDS = 60.0
IMPATIENCE_SECONDS = 0.2
"""After so long somebody presses Ctrl-C once more."""
pytestmark = pytest.mark.timeout(240, func_only=True)


class Rehearsal:
    """`steelyard rehearse` as a process."""

    def __init__(self, operated: Operated, file: Path, environment: dict[str, str]) -> None:
        self._operated = operated
        argv = [*PROGRAM, "rehearse", str(file), "-n", operated.namespace]
        self.process = subprocess.Popen(
            argv,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_as_in_a_terminal,
        )

    def reaches_its_first_rung(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
            return rungs(self._operated) == [FIRST] and self._operated.has("Ready", name=FIRST)

        wait_for("the first rung is ready", ready, SECONDS)

    def ends(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, err


def _as_in_a_terminal() -> None:
    """Tests that run in the background may ignore these, and whatever they start would inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def rungs(operated: Operated) -> list[str]:
    return [job["metadata"]["name"] for job in operated.server.list("AgenticRLJob", operated.namespace)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_manifest({"scaling": {"intervalSeconds": 1}})))
    return path


@pytest.fixture
def started(operated: Operated, file: Path, environment: dict[str, str]) -> Iterator[list[Rehearsal]]:
    """Those that a test starts; none outlives it."""
    running: list[Rehearsal] = []
    yield running
    for rehearsal in running:
        rehearsal.process.kill()
        rehearsal.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_takes_its_job_with_it(
    operated: Operated, file: Path, environment: dict[str, str], started: list[Rehearsal], number: signal.Signals
) -> None:
    started.append(rehearsal := Rehearsal(operated, file, environment))
    rehearsal.reaches_its_first_rung()
    for each in (number, signal.SIGINT, number):
        rehearsal.process.send_signal(each)
        time.sleep(IMPATIENCE_SECONDS)
    code, err = rehearsal.ends()
    assert code != 0
    assert f"interrupted: removing {FIRST}" in err
    assert rungs(operated) == []
    operated.until("its pods are gone", lambda: not operated.pods())


def test_what_a_killed_one_leaves_the_next_one_removes(
    operated: Operated, file: Path, environment: dict[str, str], started: list[Rehearsal]
) -> None:
    started.append(first := Rehearsal(operated, file, environment))
    first.reaches_its_first_rung()
    first.process.kill()
    first.process.communicate()

    started.append(second := Rehearsal(operated, file, environment))
    code, err = second.ends()
    assert code == 3
    assert f"SY1103 {operated.namespace}/calculator: " in err
    assert rungs(operated) == [FIRST], "it may still be alive"

    old = {"metadata": {"annotations": {"steelyard.dev/rehearsal-seen": "2026-01-01T00:00:00+00:00"}}}
    operated.server.patch("AgenticRLJob", operated.namespace, FIRST, old)
    uid = operated.job(FIRST)["metadata"]["uid"]
    started.append(third := Rehearsal(operated, file, environment))
    wait_for(
        "another first rung",
        lambda: FIRST in rungs(operated) and operated.job(FIRST)["metadata"]["uid"] != uid,
        SECONDS,
    )
    third.process.send_signal(signal.SIGINT)
    _, err = third.ends()
    assert f"removing {FIRST}, left by an earlier rehearsal" in err
    assert rungs(operated) == []
