"""`steelyard diff -f`: what it foretells is what the operator then does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.cluster.kinds import BY_NAME, JOB, Object
from tests.builders import job_manifest
from tests.unit.cli.documents import JobDiff, JobDiffDocument
from tests.unit.cli.fake_kubectl import DRY_RUN, State
from tests.unit.cli.world import World, steelyard
from tests.unit.operator.operating import fixed

PATH = JOB.path("default", "calculator")


@pytest.fixture
def world() -> World:
    """A job that runs, and nobody who measures it."""
    world = World()
    world.metrics.away = True
    asyncio.run(world.run(6, seconds=5))
    return world


@pytest.fixture(autouse=True)
def _no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.cli.differing.asking.measure", lambda *_: "nobody answers")


def manifest(state: State, change: Mapping[str, Any] | None = None) -> Object:
    """The job as its user wrote it, with other top-level fields of the spec."""
    job = deepcopy(state.objects[PATH])
    metadata = {"name": job["metadata"]["name"]}
    return {**job, "metadata": metadata, "spec": {**job["spec"], **(change or {})}}


def diff(
    state: State, job: Object, *arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, JobDiffDocument]:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    code, out, err = steelyard(
        state, "diff", "-f", str(tmp_path / "job.yaml"), "-o", "json", *arguments, monkeypatch=monkeypatch
    )
    assert out, err
    (told,) = JobDiff.model_validate(json.loads(out)).items
    return code, told


def with_args(job: Object, stage: str, **args: str) -> Object:
    return {"stages": {**job["spec"]["stages"], stage: {**job["spec"]["stages"][stage], "args": args}}}


def without_slices(job: Object) -> Object:
    stages = deepcopy(job["spec"]["stages"])
    for stage in ("sampler", "rewardServer"):
        stages[stage]["gpuProfiles"] = [one for one in stages[stage]["gpuProfiles"] if one["name"] != "slice"]
    return {"stages": stages}


CHANGES = {
    "nothing": lambda _: {},
    "another allocation": lambda _: fixed(environment={"default": 2}),
    "a tool's argument": lambda job: with_args(job, "environment", toolSeconds="9"),
    "a longer run": lambda job: {"algorithm": {**job["spec"]["algorithm"], "steps": 9000}},
    "another learning rate": lambda job: {"algorithm": {**job["spec"]["algorithm"], "args": {"learningRate": "1e-5"}}},
    "suspended": lambda _: {"suspend": True},
    "a GPU profile less": without_slices,
}


def workloads(state: State) -> dict[str, tuple[int, str]]:
    """Replicas and template digest of what runs."""
    found = {}
    for path, obj in state.objects.items():
        for kind in ("Deployment", "Job"):
            if path.startswith(BY_NAME[kind].path("default")):
                spec = obj["spec"]
                replicas = spec.get("replicas", 0 if spec.get("suspend") else spec.get("parallelism"))
                found[obj["metadata"]["name"]] = replicas, obj["metadata"]["annotations"]["steelyard.dev/digest"]
    return {name: one for name, one in found.items() if one[0]}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_it_foretells_is_what_the_operator_does(
    world: World, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    changed = change(state.objects[PATH])
    _, told = diff(state, manifest(state, changed), tmp_path=tmp_path, monkeypatch=monkeypatch)
    world.change_spec(changed)
    asyncio.run(world.run(30, seconds=5))
    before, after = workloads(state), workloads(world.state())

    def name(one: Any) -> str:
        stage = {"rewardServer": "reward-server"}.get(one.stage, one.stage)
        return f"calculator-{stage}" + ("" if one.stage == "environment" else f"-{one.profile}")

    assert {name(one): one.after for one in told.replicas if one.after} == {name: n for name, (n, _) in after.items()}
    assert {name(one): one.before for one in told.replicas if one.before} == {
        name: n for name, (n, _) in before.items()
    }
    restarted = {one for one in before.keys() & after.keys() if before[one][1] != after[one][1]}
    assert {name(one) for one in told.replicas if one.pods == "restart"} == restarted
    assert [one for one in told.replicas if one.pods == "unknown"] == []
    assert {one.name for one in told.objects or ()} <= {"calculator-config"}
    assert told.differs == bool(changed)


def test_fields_are_named_with_both_values_and_programs_may_ask_by_exit_code(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    job = manifest(state)
    code, told = diff(state, job, "--exit-code", tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert (code, told.fields, told.differs) == (0, [], False)

    job["spec"]["scaling"].pop("cooldownSeconds")
    job["spec"]["algorithm"]["steps"] = 9000
    code, told = diff(state, job, "--exit-code", tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert code == 4
    assert {(one.path, one.before, one.after) for one in told.fields} == {
        ("spec.algorithm.steps", 2000, 9000),
        ("spec.scaling.cooldownSeconds", 10, None),
    }
    assert told.unreadable == "nobody answers"
    assert diff(state, job, tmp_path=tmp_path, monkeypatch=monkeypatch)[0] == 0


def test_of_a_job_that_is_not_there_it_tells_the_first_allocation_and_all_that_will_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, told = diff(State(), job_manifest(), "--exit-code", tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert (code, told.exists, told.decision.action) == (4, False, "Initial")
    assert {one.pods for one in told.replicas} == {"start"}
    assert told.gpus.before == 0 < told.gpus.after <= told.gpus.budget
    assert {one.action for one in told.objects or ()} == {"create"}
    assert {one.kind for one in told.objects or ()} == {"ConfigMap", "PersistentVolumeClaim", "Service", "StatefulSet"}


def test_a_viewer_is_told_the_same_from_the_file_alone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    job = manifest(state, {"suspend": True})
    asked = diff(state, job, tmp_path=tmp_path, monkeypatch=monkeypatch)
    state.denied = {f"{DRY_RUN}{PATH}": "Error from server (Forbidden): you may not patch it"}
    assert diff(state, job, tmp_path=tmp_path, monkeypatch=monkeypatch) == asked
    _, _, err = steelyard(state, "diff", "-f", str(tmp_path / "job.yaml"), monkeypatch=monkeypatch)
    assert err.startswith("you may not apply it, so the API server was not asked")


def test_what_cannot_be_read_is_told_and_is_not_taken_for_missing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    state.denied = {BY_NAME["ConfigMap"].path("default"): "Error from server (Forbidden): no ConfigMaps for you"}
    _, told = diff(state, manifest(state), tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert told.objects is None
    _, _, err = steelyard(state, "diff", "-f", str(tmp_path / "job.yaml"), monkeypatch=monkeypatch)
    assert "SY1011 default/calculator: configmaps: no ConfigMaps for you" in err


def test_what_the_api_server_refuses_is_told_in_its_words(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest(state)))
    state.denied = {f"{DRY_RUN}{PATH}": "Error from server (Invalid): spec.tasks is immutable"}
    code, out, err = steelyard(state, "diff", "-f", str(tmp_path / "job.yaml"), monkeypatch=monkeypatch)
    assert (code, out) == (1, "")
    assert "SY1007 spec.tasks is immutable" in err


def test_what_runs_by_another_rendering_is_not_said_to_restart(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    for path, obj in state.objects.items():
        if path.endswith("calculator-environment"):
            obj["metadata"].setdefault("annotations", {})["steelyard.dev/digest"] = "of another version"
    _, told = diff(state, manifest(state), tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert {one.stage for one in told.replicas if one.pods == "unknown"} == {"environment"}


def test_people_read_fields_decision_replicas_and_gpus(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state()
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest(state, fixed(environment={"default": 2}))))
    code, out, _ = steelyard(state, "diff", "-f", str(file), monkeypatch=monkeypatch)
    assert code == 0
    assert "  spec.scaling.fixed.environment.default: default -> 2" in out.splitlines()
    assert "Decision: mode Fixed: environment 1 -> 2" in out
    assert "GPUs: 4 of a budget of 4" in out
    file.write_text(yaml.safe_dump(manifest(state)))
    assert steelyard(state, "diff", "-f", str(file), monkeypatch=monkeypatch)[1].endswith("The file changes nothing.\n")
    assert steelyard(state, "diff", "-f", str(tmp_path / "none.yaml"), monkeypatch=monkeypatch)[0] == 2
