"""`steelyard rehearse`: it climbs, tells how each rung ended, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.cli.rehearsing import climb
from steelyard.cluster.errors import ClusterError, Conflict
from steelyard.cluster.kinds import JOB, Object
from steelyard_workers import spans
from steelyard_workers.spans import Window
from tests.builders import job_manifest
from tests.unit.cli.documents_of_runs import RehearsalList
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.cli.lives import ZERO, of_step

READY_AT = datetime.fromtimestamp(ZERO, UTC).isoformat()


class Pretended:
    """An operator and a bus: a created job is ready at once and has trained its steps at the second look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = State()
        self.status: dict[str, Any] = {"conditions": [condition("Ready")], "bottleneck": {"stage": "sampler"}}
        self.created: list[Object] = []
        self.looks = 0
        self.now = 0.0
        pretended, create = self, FakeKubectl.create

        def made(kubectl: FakeKubectl, kind: Any, body: Object, *, dry_run: bool = False) -> Object:
            if dry_run:
                return body
            pretended.created.append(body)
            body = {**body, "status": pretended.status}
            return create(kubectl, kind, body)

        @contextmanager
        def forwarded(self: FakeKubectl, namespace: str, pod: str, port: int) -> Iterator[int]:
            yield 1

        monkeypatch.setattr(FakeKubectl, "create", made)
        monkeypatch.setattr(FakeKubectl, "forwarded", forwarded)
        monkeypatch.setattr(spans, "read", self.read)
        monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(self.state))
        monkeypatch.setattr(climb, "sleep", self.sleep)
        monkeypatch.setattr(climb, "monotonic", lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def read(self, *_: Any) -> Window:
        self.looks += 1
        steps = range(1, 6) if self.looks % 2 == 0 else range(0)
        return Window(tuple(one for step in steps for one in of_step(step, 3.0 * step)))

    @property
    def left(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.state.objects if path.startswith(JOB.path("team"))]


def condition(kind: str, status: str = "True", message: str = "fine") -> dict[str, str]:
    told = {"type": kind, "status": status, "reason": kind, "message": message}
    return {**told, "lastTransitionTime": READY_AT}


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    return Pretended(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job_manifest(namespace="team")))
    return str(path)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["rehearse", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_ladder_is_climbed_and_nothing_stays(pretended: Pretended, file: str) -> None:
    code, out, err = run(file)
    assert code == 0, err
    assert [job["metadata"]["name"][-1] for job in pretended.created] == ["1", "2", "3"]
    assert pretended.left == []
    assert out.splitlines()[0].split()[-2:] == ["ALL", "STAGES"]
    assert "one task: 5 trajectories trained, step 5 of 2" in err


def test_the_records_are_there_for_programs(pretended: Pretended, file: str) -> None:
    items = RehearsalList.model_validate(json.loads(run(file, "-o", "json")[1])).items
    assert [item.rung for item in items] == ["one task", "a few at once", "all stages"]
    assert {item.trained for item in items} == {5}
    assert {item.bottleneck for item in items} == {"sampler"}


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "a mistake of the user's": (condition("Stalled", message="no module recipe"), "Stalled: no module recipe"),
    "a trainer that failed": (condition("Failed", message="out of memory"), "Failed: out of memory"),
    "pods that keep failing": (condition("Degraded", message="image not found"), "Degraded: image not found"),
    "steps that were too fast to be looked at": (condition("Complete", message="1000 steps"), "Complete: 1000 steps"),
    "no room": (condition("Scheduled", "False", "no node has a GPU"), "not done within 30m; Scheduled: no node has"),
}


@pytest.mark.parametrize(("told_by", "says"), ENDS.values(), ids=ENDS)
def test_a_rung_that_fails_ends_the_rehearsal_and_says_why(
    pretended: Pretended, file: str, told_by: dict[str, Any], says: str
) -> None:
    pretended.status = {"conditions": [told_by]}
    code, out, _ = run(file)
    assert code == 3
    assert f"one task: stopped: {says}" in out
    assert len(pretended.created) == 1
    assert pretended.left == []


def test_interrupted_it_shows_what_it_has_and_removes_what_runs(
    pretended: Pretended, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Pretended, seconds: float) -> None:
        if len(self.created) == 2 and self.left:
            raise KeyboardInterrupt
        self.now += seconds

    monkeypatch.setattr(climb, "sleep", lambda seconds: interrupt(pretended, seconds))
    code, out, err = run(file)
    assert code == 130
    assert "interrupted: removing calculator-rehearsal-2" in err
    assert pretended.left == []
    assert out.splitlines()[0].split()[-2:] == ["ONE", "TASK"]


def test_a_rung_that_cannot_be_removed_is_an_error(
    pretended: Pretended, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ClusterError("admission webhook denied the request")

    monkeypatch.setattr(FakeKubectl, "delete", refuse)
    code, _, err = run(file)
    assert code == 1
    assert "admission webhook denied" in err
    assert "may be left, with its GPUs: kubectl delete agenticrljobs calculator-rehearsal-1 -n team" in err


def leftover(seen: timedelta, number: int = 2) -> Object:
    manifest = job_manifest(name=f"calculator-rehearsal-{number}", namespace="team")
    at = (datetime.now(UTC) - seen).isoformat(timespec="seconds")
    annotations = {"steelyard.dev/rehearsal-seen": at, "steelyard.dev/rehearsal-by": "bob"}
    manifest["metadata"] |= {"labels": {"steelyard.dev/rehearsal": "calculator"}, "annotations": annotations}
    return manifest


def test_what_a_killed_rehearsal_left_is_removed_first(pretended: Pretended, file: str) -> None:
    put(pretended.state, leftover(timedelta(minutes=2)))
    code, _, err = run(file)
    assert code == 0
    assert "removing calculator-rehearsal-2, left by an earlier rehearsal" in err


def test_a_rehearsal_that_is_going_on_is_left_alone(pretended: Pretended, file: str) -> None:
    put(pretended.state, leftover(timedelta(seconds=20)))
    code, out, err = run(file)
    assert (code, out) == (3, "")
    assert "SY1103 team/calculator: bob rehearses calculator" in err
    assert pretended.left == ["calculator-rehearsal-2"]
    assert not pretended.created


def test_what_another_rehearsal_makes_at_the_same_moment_is_left_to_it(
    pretended: Pretended, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = FakeKubectl.create

    def too_late(kubectl: FakeKubectl, kind: Any, body: Object, *, dry_run: bool = False) -> Object:
        if not dry_run:
            put(pretended.state, leftover(timedelta(seconds=0), number=1))
            raise Conflict(f"{body['metadata']['name']} already exists")
        return ours(kubectl, kind, body, dry_run=True)

    monkeypatch.setattr(FakeKubectl, "create", too_late)
    code, _, err = run(file)
    assert code == 3
    assert "SY1103 team/calculator: somebody else has just made calculator-rehearsal-1" in err
    assert pretended.left == ["calculator-rehearsal-1"]


def test_a_rung_is_marked_as_seen_again_and_again(pretended: Pretended, file: str) -> None:
    pretended.status = {"conditions": [condition("Scheduled", "False", "no room")]}
    run(file, "--timeout", "2m")
    patches = [call for call in pretended.state.calls if call[0] == "patch" and "rehearsal-seen" in str(call)]
    assert len(patches) == pytest.approx(120 / climb.SEEN_SECONDS, abs=2)


FILES = {
    "no file": (None, 2, "job.yaml: No such file or directory"),
    "no YAML": ("a: [", 2, "job.yaml: is no YAML: while parsing"),
    "no text": ("\udcff", 2, "job.yaml: is no text in UTF-8"),
    "no job": ("kind: ConfigMap", 2, "holds 0 AgenticRLJobs, must hold one"),
    "a broken job": (yaml.safe_dump(job_manifest({"budget.gpus": 1})), 3, "budget.gpus: gpus 1 must be at least"),
    "a typing error": (yaml.safe_dump(job_manifest({"buget": {}})), 3, "buget: Extra inputs are not permitted"),
}


@pytest.mark.parametrize(("text", "exit_code", "says"), FILES.values(), ids=FILES)
def test_a_file_that_will_not_do_is_named(
    pretended: Pretended, tmp_path: Path, text: str | None, exit_code: int, says: str
) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text, errors="surrogateescape")
    code, out, err = run(str(path))
    assert (code, out) == (exit_code, "")
    assert says in " ".join(err.split())


def test_a_job_may_come_from_another_program(pretended: Pretended) -> None:
    text = yaml.safe_dump(job_manifest(namespace="team"))
    result = CliRunner().invoke(app, ["rehearse", "-"], input=text)
    assert result.exit_code == 0
    assert len(pretended.created) == 3


def test_the_rest_of_a_file_is_left_to_the_user(pretended: Pretended, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all([job_manifest(), {"kind": "ConfigMap", "metadata": {"name": "tasks"}}]))
    assert "apply the rest of it first" in run(str(path))[2]
