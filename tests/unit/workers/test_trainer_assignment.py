"""A trainer says what is wrong with its job, data set or model before it imports torch, which takes long."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.local import job_json
from steelyard_workers.termination import USER_ERROR, UserError
from steelyard_workers.trainer.assignment import Assignment


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job that a trainer could start on, as the environment names it."""
    for name in ("tasks", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "tasks" / "tasks.jsonl").write_text('{"prompt": "1+1="}\n')
    (tmp_path / "model" / "config.json").write_text("{}")
    write_job(tmp_path)
    environment = {"CONFIG": "job.json", "TASKS": "tasks", "MODEL": "model", "TERMINATION_LOG": "termination-log"}
    for name, path in environment.items():
        monkeypatch.setenv(f"STEELYARD_{name}", str(tmp_path / path))
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    return tmp_path


def write_job(place: Path, **algorithm: Any) -> None:
    (place / "job.json").write_text(json.dumps(job_json(algorithm=algorithm)))


def test_an_assignment_holds_what_the_environment_names(place: Path) -> None:
    assignment = Assignment.read()

    assert assignment.job.name == "calculator"
    assert assignment.place.model == place / "model"
    assert assignment.settings.learning_rate == 3e-4
    assert len(assignment.dataset) == 1


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no job": (lambda place: (place / "job.json").unlink(), "job configuration .*No such file"),
    "a job that is none": (lambda place: write_job(place, groupSize=1), r"spec\.algorithm\.groupSize"),
    "an unknown argument": (lambda place: write_job(place, args={"lr": "1"}), r"spec\.algorithm\.args\.lr: Extra"),
    "a data set that is not there": (lambda place: (place / "tasks").rename(place / "x"), "tasks: .*is no folder"),
    "an empty data set": (lambda place: (place / "tasks" / "tasks.jsonl").write_text(""), "tasks: .*no records"),
    "a model that is not there": (lambda place: (place / "model").rename(place / "x"), "model .*: is no folder"),
    "a folder that is no model": (lambda place: (place / "model" / "config.json").unlink(), "model .*: no config.json"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, place: Path) -> None:
    make, words = MISTAKES[mistake]
    make(place)

    with pytest.raises(UserError, match=words):
        Assignment.read()


LAST_THING = """
import sys
from steelyard_workers.trainer.__main__ import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def test_a_mistake_is_said_without_importing_torch(place: Path) -> None:
    (place / "tasks" / "tasks.jsonl").unlink()

    ended = subprocess.run([sys.executable, "-c", LAST_THING], env=os.environ, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (USER_ERROR, "False\n"), ended.stderr
    assert (place / "termination-log").read_text() == f"tasks: no *.jsonl in {place / 'tasks'}"
