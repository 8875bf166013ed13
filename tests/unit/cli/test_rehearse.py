"""`steelyard rehearse`: which jobs it makes of a job, what it records of them, and that it leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.api import AgenticRLJob, Stage
from steelyard.cli import app
from steelyard.cli.rehearsing import climb
from steelyard.cli.rehearsing.ladder import Rung, ladder, rung_name
from steelyard.cli.rehearsing.record import Figures, Record, Scene, as_item, compared, figures, scene, told
from steelyard.cli.tracing.story import Share, stories
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import JOB, Object
from steelyard_workers import spans
from steelyard_workers.spans import Span, Window
from tests.builders import job_manifest
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.cli.test_trace import ZERO, life, span

READY_AT = datetime.fromtimestamp(ZERO, UTC).isoformat()


def rungs(changes: Mapping[str, Any] | None = None, name: str = "calculator") -> tuple[Rung, ...]:
    manifest = job_manifest(changes, name=name)
    return ladder(manifest["spec"], AgenticRLJob.model_validate(manifest), "team")


def parsed(rung: Rung) -> AgenticRLJob:
    return AgenticRLJob.model_validate(dict(rung.manifest))


JOBS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "in mode Fixed": {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"slice": 4}}}},
    "pinned and suspended": {"scaling": {"pin": "calculator-3"}, "suspend": True},
    "with a large batch": {"algorithm": {"groupSize": 32, "promptsPerStep": 64}, "buffer.maxExperience": 20000,
                           "buffer.maxTrajectories": 20000},
    "with a small batch": {"algorithm": {"groupSize": 2, "promptsPerStep": 1}},
    "with planning": {"planning": {"model": "qwen3-14b", "hardware": "a800-80g"}},
    "with minima": {"stages.environment.replicas": {"min": 4, "max": 8}},
    "of a pool": {"pool": {"name": "shared", "queue": "high"}},
}  # fmt: skip


@pytest.mark.parametrize("changes", JOBS.values(), ids=JOBS)
def test_every_rung_is_a_valid_job_that_neither_ends_by_itself_nor_moves(changes: dict[str, Any]) -> None:
    made = [parsed(rung) for rung in rungs(changes)]
    for job in made:
        assert job.spec.algorithm.steps == 10_000_000, "its spans are gone once it is complete"
        assert job.spec.scaling.mode == (
            "Fixed" if "fixed" in changes.get("scaling", {}) and job is made[2] else "Observe"
        )
        assert job.spec.scaling.pin is None
        assert not job.spec.suspend
        assert job.spec.checkpoints.reclaim == "Delete"
        assert job.spec.tracing.sample_percent == 100
        assert job.metadata.namespace == "team"
        assert job.metadata.labels == {"steelyard.dev/rehearsal": "calculator"}
    assert [job.metadata.name for job in made] == [f"calculator-rehearsal-{number}" for number in (1, 2, 3)]


def test_the_load_grows_from_one_task_to_the_jobs_own() -> None:
    one, few, everything = (parsed(rung).spec for rung in rungs({"stages.environment.replicas.initial": 3}))
    assert [spec.algorithm.batch for spec in (one, few, everything)] == [2, 16, 128]
    assert one.algorithm.max_staleness == 0
    assert [spec.stages.environment.concurrency for spec in (one, few, everything)] == [2, 16, 16]
    assert [spec.initial_allocation.replicas(Stage.ENVIRONMENT) for spec in (one, few, everything)] == [1, 1, 3]


def test_a_rung_is_no_larger_than_the_job() -> None:
    small = {"algorithm": {"groupSize": 2, "promptsPerStep": 2}, "stages.environment.concurrency": 1}
    assert [parsed(rung).spec.algorithm.batch for rung in rungs(small)] == [2, 4, 4]
    assert [parsed(rung).spec.stages.environment.concurrency for rung in rungs(small)] == [1, 1, 1]


def test_long_names_are_cut_to_what_pods_can_have() -> None:
    assert rung_name("a" * 40, 2) == "a" * 28 + "-rehearsal-2"
    assert rung_name("a" * 27 + "-b", 2) == "a" * 27 + "-rehearsal-2"


def of_step(step: int, at: float, k: int = 0, **about: Any) -> list[Span]:
    """A trajectory that is trained in `step`, dispatched at `at`."""
    lived = life(f"{step}/{k}/0", at)
    return [replace(one, about={**one.about, "step": step, **about}) if one.name == "train" else one for one in lived]


def test_figures_are_folded_from_spans() -> None:
    found = figures(
        stories(
            [
                *of_step(1, 0.0),
                *of_step(1, 1.0, k=1),
                *of_step(2, 10.0),
                span("episode", 0, 1, "9/0/0", outcome="failed"),
                span("episode", 0, 1, "9/1/0", outcome="timeout"),
                span("episode", 0, 1, "9/1/1", outcome="ok"),
            ]
        )
    )
    assert (found.trajectories, found.trained, found.failed, found.timed_out, found.retried) == (6, 3, 1, 1, 1)
    assert (found.steps, found.step_seconds, found.interval_seconds) == (2, 2.5, 9.0)
    assert (found.median_seconds, found.slow_seconds) == (14.0, 14.0), "without the second in the queue of tasks"
    assert found.shares[Share.TRAINER_QUEUE] == 5.0


def test_what_was_begun_while_the_job_was_starting_is_not_measured() -> None:
    told = stories([*of_step(1, 0.0), *of_step(2, 10.0)])
    found = figures(told, ready=ZERO + 5)
    assert (found.trajectories, found.trained, found.steps) == (2, 1, 1)


def test_before_anything_was_trained_there_are_no_figures() -> None:
    assert figures([]) == Figures()


def pod(name: str, job: str, phase: str = "Running", restarts: int = 0, gpus: str | None = None) -> Object:
    annotations = {"steelyard.dev/gpus": gpus} if gpus else {}
    metadata = {"name": name, "namespace": "team", "labels": {"steelyard.dev/job": job}, "annotations": annotations}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "status": {"phase": phase, "containerStatuses": [{"restartCount": restarts}]},
    }


def test_a_scene_tells_the_rungs_own_pods_from_others() -> None:
    pods = [
        pod("a", "mine", restarts=2),
        pod("b", "mine", phase="Failed"),
        pod("c", "other", gpus="500m"),
        pod("d", "other", phase="Pending", gpus="1"),
        pod("e", "other", phase="Succeeded", gpus="1"),
        {"metadata": {"name": "stranger", "namespace": "team"}},
    ]
    events = [
        {"type": "Warning", "involvedObject": {"name": "a"}},
        {"type": "Normal", "involvedObject": {"name": "a"}},
        {"type": "Warning", "involvedObject": {"name": "c"}},
    ]
    assert scene(pods, events, "mine") == Scene(
        own_pods=2, own_restarts=2, own_failed=1, other_pods=2, other_gpus=1.5, pending=1, warnings=1
    )


def recorded(title: str, found: Figures, **fields: Any) -> Record:
    return Record(title, f"calculator-{title[:3]}", Scene(), Scene(other_pods=2), found, 12.0, **fields)


SMALL = Figures(trajectories=16, trained=16, steps=3, median_seconds=2.0, shares={Share.SAMPLER: 1.5, Share.TOOLS: 0.5})
LARGE = Figures(
    trajectories=100, trained=97, failed=2, timed_out=1, steps=5, median_seconds=8.0,
    shares={Share.SAMPLER: 6.5, Share.TOOLS: 0.6},
)  # fmt: skip


def test_rungs_stand_side_by_side() -> None:
    lines = compared([recorded("a few", SMALL), recorded("all stages", LARGE, bottleneck="sampler")])
    cells = [" ".join(line.split()) for line in lines]
    assert cells[0].endswith("A FEW ALL STAGES")
    assert "waiting for samplers 1.50 6.50" in cells
    assert "failed, timed out, retried 0, 0, 0 2, 1, 0" in cells
    assert "bottleneck - sampler" in cells
    assert not [line for line in cells if "trainer at work" in line], "what no rung has is left out"


def test_what_grew_is_said_in_a_sentence() -> None:
    said = told([recorded("a few", SMALL), recorded("all stages", LARGE, findings=("KV pool is full",))])
    assert said == [
        "from a few to all stages a trajectory takes 4 times as long, most of it waiting for samplers: 1.50 to 6.50 s",
        "all stages: 3 of 100 trajectories failed or timed out",
        "all stages: KV pool is full",
    ]


def test_a_failure_is_said_first() -> None:
    said = told([recorded("a few", SMALL), recorded("all stages", Figures(), failure="Stalled: no such module")])
    assert said == ["all stages: stopped: Stalled: no such module"]


def test_programs_get_every_figure_and_the_scenes() -> None:
    item = json.loads(json.dumps(as_item(recorded("all stages", LARGE))))
    assert (item["rung"], item["timedOut"], item["shares"]["sampler"]) == ("all stages", 1, 6.5)
    assert (item["before"]["otherPods"], item["after"]["otherPods"]) == (0, 2)


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
    document = json.loads(run(file, "-o", "json")[1])
    assert document["kind"] == "RehearsalList"
    assert [item["rung"] for item in document["items"]] == ["one task", "a few at once", "all stages"]
    assert {item["trained"] for item in document["items"]} == {5}
    assert {item["bottleneck"] for item in document["items"]} == {"sampler"}


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "a mistake of the user's": (condition("Stalled", message="no module recipe"), "Stalled: no module recipe"),
    "a trainer that failed": (condition("Failed", message="out of memory"), "Failed: out of memory"),
    "pods that keep failing": (condition("Degraded", message="image not found"), "Degraded: image not found"),
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


def leftover(seen: timedelta) -> Object:
    manifest = job_manifest(name="calculator-rehearsal-2", namespace="team")
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
    assert "SY1103 calculator: bob rehearses calculator" in err
    assert pretended.left == ["calculator-rehearsal-2"]
    assert not pretended.created


def test_a_rung_is_marked_as_seen_again_and_again(pretended: Pretended, file: str) -> None:
    pretended.status = {"conditions": [condition("Scheduled", "False", "no room")]}
    run(file, "--timeout", "2m")
    patches = [call for call in pretended.state.calls if call[0] == "patch" and "rehearsal-seen" in str(call)]
    assert len(patches) == pytest.approx(120 / climb.SEEN_SECONDS, abs=2)


FILES = {
    "no file": (None, "No such file"),
    "no YAML": ("a: [", "while parsing"),
    "no job": ("kind: ConfigMap", "holds 0 AgenticRLJobs, want one"),
    "a broken job": (yaml.safe_dump(job_manifest({"budget.gpus": 1})), "budget.gpus: gpus 1 must be at least"),
    "a typing error": (yaml.safe_dump(job_manifest({"buget": {}})), "buget: Extra inputs are not permitted"),
}


@pytest.mark.parametrize(("text", "says"), FILES.values(), ids=FILES)
def test_a_file_that_will_not_do_is_named(pretended: Pretended, tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text)
    code, out, err = run(str(path))
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())


def test_the_rest_of_a_file_is_left_to_the_user(pretended: Pretended, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all([job_manifest(), {"kind": "ConfigMap", "metadata": {"name": "tasks"}}]))
    assert "apply the rest of it first" in run(str(path))[2]
