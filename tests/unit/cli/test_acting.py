"""hold, pause, resume and undo as people meet them: what is written to the cluster, what is said, how they exit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.api import Allocation, AllocationRevision, Stage
from steelyard.cli import app
from steelyard.cluster.kinds import JOB, REVISION, Object
from tests.builders import a_revision, an_allocation, job_manifest
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put

LEDGER = REVISION.path("default")
SCALED = an_allocation({Stage.SAMPLER: {"whole": 3}})
ARGO = {"argocd.argoproj.io/tracking-id": "web:steelyard.dev/AgenticRLJob:default/calculator"}


def entry(number: int, after: Allocation | None = None, **fields: Any) -> Object:
    obj = a_revision(number, after, status={"applied_time": "2026-11-30T12:00:00Z"}, **fields).to_dict()
    return {**obj, "apiVersion": "steelyard.dev/v1alpha1", "kind": "AllocationRevision"}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    state = State()
    put(state, job_manifest(), entry(1), entry(2, SCALED, before=an_allocation()))
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(state))
    return state


def change(state: State, *, spec: Mapping[str, Any] | None = None, **metadata: Any) -> None:
    job = state.objects[JOB.path("default", "calculator")]
    job["metadata"] |= metadata
    job["spec"] |= spec or {}


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def written(state: State, number: int = 3) -> AllocationRevision:
    return AllocationRevision.from_cluster(state.objects[f"{LEDGER}/calculator-{number}"])


def test_a_hold_is_written_to_the_ledger_and_says_how_to_end_it(state: State) -> None:
    code, out, err = run("hold", "calculator", "--stage", "sampler", "--replicas", "2", "--for", "1h30m")
    revision = written(state)
    assert code == 0
    assert revision.spec.origin == "User"
    assert revision.spec.allocation.after == an_allocation({Stage.SAMPLER: {"whole": 2}})
    assert revision.spec.reason == "alice holds it: sampler 3 -> 2"
    assert revision.spec.expires_at is not None
    assert out.startswith("calculator-3 holds sampler 3 -> 2 for 1h30m, until 20")
    assert err == "end it earlier with: steelyard resume calculator -n default\n"


def test_stages_are_named_as_in_the_spec_or_as_in_labels(state: State) -> None:
    for name in ("rewardServer", "reward-server"):
        assert run("hold", "calculator", "--stage", name, "--replicas", "2")[0] == 0
    assert written(state, 4).spec.allocation.after.replicas(Stage.REWARD_SERVER) == 2


def test_a_taken_number_is_looked_up_again(state: State) -> None:
    """The operator wrote its next entry between our reading and writing."""
    real = FakeKubectl.objects
    raced: list[State] = []

    def late(self: FakeKubectl, *arguments: Any, **options: Any) -> list[Object]:
        found = real(self, *arguments, **options)
        if not raced:
            raced.append(put(state, entry(3, an_allocation(), before=SCALED)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeKubectl, "objects", late)
        code, out, _ = run("hold", "calculator", "--stage", "sampler", "--replicas", "2")
    assert code == 0
    assert out.startswith("calculator-4 holds sampler 4 -> 2 until you resume it")
    assert written(state, 4).spec.parent == "calculator-3"


def test_pause_holds_what_runs_now(state: State) -> None:
    code, out, _ = run("pause", "calculator", "--for", "2h")
    assert code == 0
    assert written(state).spec.allocation.after == SCALED
    assert written(state).spec.reason == "alice paused scaling"
    assert "calculator-3 holds sampler 3 whole" in out


def test_resume_ends_holds_and_says_what_is_in_force_again(state: State) -> None:
    run("hold", "calculator", "--stage", "sampler", "--replicas", "2")
    run("pause", "calculator")
    code, out, _ = run("resume", "calculator")
    assert code == 0
    assert sorted(path.rpartition("/")[2] for path in state.objects if path.startswith(LEDGER)) == [
        "calculator-1",
        "calculator-2",
    ]
    assert out.splitlines() == [
        "calculator-4 is ended",
        "calculator-3 is ended",
        "calculator-2 is in force again: sampler 2 -> 3",
    ]


def test_resume_deletes_the_entry_it_saw_and_no_namesake(state: State) -> None:
    run("pause", "calculator")
    run("resume", "calculator")
    deleted = [call for call in state.calls if call[0] == "delete"]
    assert len(deleted) == 1
    assert state.deletions == [{"preconditions": {"uid": "uid-calculator-3"}}]


NOTHING = {
    "nothing": ({}, "nothing is held\n"),
    "a pin": ({"scaling": {"pin": "calculator-1"}}, "spec.scaling.pin pins calculator-1"),
    "a suspended job": ({"suspend": True}, "steelyard resume calculator --workload"),
}


@pytest.mark.parametrize(("spec", "says"), NOTHING.values(), ids=NOTHING)
def test_resume_without_a_hold_says_what_stands_in_the_way(state: State, spec: dict[str, Any], says: str) -> None:
    change(state, spec=spec)
    code, out, err = run("resume", "calculator")
    assert (code, out) == (0, "")
    assert says in err


def test_undo_holds_the_allocation_before_and_prints_the_patch(state: State) -> None:
    code, out, _ = run("undo", "calculator", "--for", "1d")
    assert code == 0
    assert written(state).spec.allocation.after == an_allocation()
    assert out.startswith("# calculator-3 holds the allocation of calculator-1 (sampler 3 -> 4) for 1d, until ")
    assert yaml.safe_load(out) == {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "AgenticRLJob",
        "metadata": {"name": "calculator", "namespace": "default"},
        "spec": {"scaling": {"pin": "calculator-1"}},
    }


def test_undo_of_a_job_in_git_needs_an_end(state: State) -> None:
    change(state, annotations=ARGO)
    code, out, err = run("undo", "calculator")
    assert (code, out) == (3, "")
    assert "--for: not given: Argo CD (web) keeps this job" in err
    assert f"{LEDGER}/calculator-3" not in state.objects
    assert run("undo", "calculator", "--for", "1h")[0] == 0


def test_no_command_but_workload_changes_the_job_itself(state: State) -> None:
    before = json.dumps(state.objects[JOB.path("default", "calculator")])
    for command in (("pause",), ("hold", "--stage", "sampler", "--replicas", "2"), ("undo",), ("resume",)):
        assert run(command[0], "calculator", *command[1:])[0] == 0
    assert json.dumps(state.objects[JOB.path("default", "calculator")]) == before


def test_workload_suspends_and_resumes_the_pods(state: State) -> None:
    assert run("pause", "calculator", "--workload")[0] == 0
    assert state.objects[JOB.path("default", "calculator")]["spec"]["suspend"] is True
    assert run("resume", "calculator", "--workload")[0] == 0
    assert state.objects[JOB.path("default", "calculator")]["spec"]["suspend"] is False


@pytest.mark.parametrize(("command", "suspend"), [("pause", True), ("resume", False)])
def test_workload_of_a_job_in_git_is_a_patch_for_git(state: State, command: str, suspend: bool) -> None:
    change(state, annotations=ARGO)
    code, out, err = run(command, "calculator", "--workload")
    assert code == 3
    assert yaml.safe_load(out)["spec"] == {"suspend": suspend}
    assert "Argo CD (web) keeps it as it is in Git" in err
    assert not [call for call in state.calls if call[0] == "patch"]
    assert json.loads(run(command, "calculator", "--workload", "-o", "json")[1]) == yaml.safe_load(out)


def test_a_rule_of_the_job_is_named_with_field_and_value_and_nothing_is_written(state: State) -> None:
    code, out, err = run("hold", "calculator", "--stage", "sampler", "--replicas", "7")
    assert (code, out) == (3, "")
    assert err.startswith("SY1101 AgenticRLJob default/calculator: spec.stages.sampler.replicas: 7: must lie between")
    assert not [call for call in state.calls if call[0] == "create" and "selfsubjectreviews" not in call[1]]


USAGE = {
    "no length of time": (("pause", "calculator", "--for", "soon"), "'soon' is no duration; write 90s"),
    "no stage": (("hold", "calculator", "--stage", "judge", "--replicas", "1"), "stages are sampler, environment"),
    "a number below none": (
        ("hold", "calculator", "--stage", "sampler", "--replicas", "-1"),
        "greater than or equal to 0",
    ),
    "more than any stage may have": (
        ("hold", "calculator", "--stage", "sampler", "--replicas", "1001"),
        "less than or equal to 1000",
    ),
    "a suspended workload that ends": (("pause", "calculator", "--workload", "--for", "1h"), "nobody would resume"),
}


@pytest.mark.parametrize(("arguments", "says"), USAGE.values(), ids=USAGE)
def test_wrong_usage_exits_2_and_writes_nothing(state: State, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert not [call for call in state.calls if call[0] in ("create", "patch", "delete")]


def test_what_was_written_is_there_for_programs(state: State) -> None:
    _, out, _ = run("pause", "calculator", "-o", "json")
    document = json.loads(out)
    assert (document["kind"], document["items"][0]["metadata"]["name"]) == ("AllocationRevisionList", "calculator-3")
    assert run("pause", "calculator", "-o", "name")[1] == "allocationrevision.steelyard.dev/calculator-4\n"


def test_a_broken_job_is_not_acted_on(state: State) -> None:
    change(state, spec={"budget": {"gpus": 1}})
    code, _, err = run("pause", "calculator")
    assert code == 3
    assert "budget.gpus" in err


def test_an_entry_that_is_none_is_passed_over(state: State) -> None:
    put(state, {**entry(7), "spec": {"number": "seven"}})
    code, out, err = run("pause", "calculator")
    assert code == 0
    assert "calculator-7 is passed over: " in err
    assert out.startswith("calculator-3 holds")


def test_a_suspended_job_is_held_and_told_so(state: State) -> None:
    change(state, spec={"suspend": True})
    code, _, err = run("pause", "calculator")
    assert code == 0
    assert "the job is suspended: the hold shows when it goes on" in err


def test_without_the_right_to_write_the_error_is_the_servers(state: State) -> None:
    state.denied = {}
    real = FakeKubectl.create

    def refuse(self: FakeKubectl, *arguments: Any, **options: Any) -> Object:
        state.denied = {LEDGER: 'Error from server (Forbidden): user "alice" cannot create resource'}
        return real(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeKubectl, "create", refuse)
        code, out, err = run("pause", "calculator")
    assert (code, out) == (6, "")
    assert "cannot create" in err
