"""The program as a process: what becomes of its streams when the machine does not play along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.kube import wait_for
from tests.builders import job_manifest

PROGRAM = [sys.executable, "-c", "from steelyard.cli import main; main()"]
SECONDS = 30
DEGRADED = {"type": "Degraded", "status": "True", "reason": "Because", "message": "größer"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell whose kubectl knows one job, in which somebody wrote a word with an umlaut."""
    job = {**job_manifest(), "status": {"conditions": [DEGRADED]}}
    job["metadata"] |= {"uid": "1", "creationTimestamp": "2026-11-30T12:00:00Z", "generation": 1}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"items": [job], "metadata": {"resourceVersion": "1"}}))
    kubectl = tmp_path / "kubectl"
    watching = f'case "$*" in *watch=true*) echo $$ > {tmp_path}/watch; exec sleep 60;; esac'
    kubectl.write_text(f"#!/bin/sh\n{watching}\ncat {answer}\n")
    kubectl.chmod(0o755)
    return {**os.environ, "KUBECTL": str(kubectl)}


def test_help_calls_the_program_as_it_was_called() -> None:
    called = "import sys; sys.argv[0] = '/usr/bin/kubectl-steelyard'; from steelyard.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", called, "status", "-h"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: kubectl steelyard status ")


def test_a_name_that_is_no_text_can_be_complained_of() -> None:
    done = subprocess.run([*PROGRAM, "rehearse", b"\xff.yaml"], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    assert b"\\udcff.yaml: No such file or directory" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_it_started_ends_with_it(environment: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    watch = tmp_path / "watch"
    followed = [*PROGRAM, "status", "-w", "-n", "default"]
    with subprocess.Popen(followed, stdout=subprocess.PIPE, env=environment, preexec_fn=_as_in_a_terminal) as process:
        wait_for("it watches", lambda: watch.exists() and watch.read_text(), SECONDS)
        process.send_signal(number)
        assert process.wait(SECONDS) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(watch.read_text()), 0)


def _as_in_a_terminal() -> None:
    """Tests that run in the background may ignore these, and whatever they start would inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


STATUS = [*PROGRAM, "status", "-n", "default", "-o", "json"]


def test_a_full_disk_is_one_line_with_a_code(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            STATUS, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, timeout=SECONDS, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "SY1012 No space left on device (see docs/messages.md#sy1012)\n"


def test_a_reader_that_has_enough_is_no_failure_worth_a_word(environment: dict[str, str]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as gone:
        done = subprocess.run(
            STATUS, stdout=gone, stderr=subprocess.PIPE, env=environment, text=True, timeout=SECONDS, check=False
        )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [(["status", "-n", "default"], 1, 0), (["status", "-n", "../x"], 2, 2), (["rehearse", "-"], 0, 2)],
    ids=["stdout", "stderr", "stdin"],
)
def test_a_stream_that_is_closed_is_as_one_that_nobody_reads(
    environment: dict[str, str], arguments: list[str], closed: int, code: int
) -> None:
    argv = [*PROGRAM, *arguments]
    done = subprocess.run(
        argv, stderr=subprocess.PIPE, env=environment, timeout=SECONDS, check=False, preexec_fn=lambda: os.close(closed)
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_data_is_utf_8_whatever_the_locale(environment: dict[str, str]) -> None:
    narrow = {**environment, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(STATUS, capture_output=True, env=narrow, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    (job,) = json.loads(done.stdout.decode("utf-8"))["items"]
    assert job["conditions"]["Degraded"]["message"] == "größer"
