"""`steelyard tree` and `history`: what a job consists of, and what happened to it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from steelyard.cli import asking
from steelyard.cluster.kinds import BY_NAME, EVENT, JOB, POD, REVISION, Object
from tests.unit.cli.documents import JobHistory, JobTree, NodeDocument
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import Answering, lived, one_of, steelyard

PATH = JOB.path("default", "calculator")
DEPLOYMENT = BY_NAME["Deployment"]
FORBIDDEN = 'Error from server (Forbidden): User "v" may not'


@pytest.fixture
def state() -> State:
    """A job that has moved once."""
    return lived(50).state()


def tree(state: State, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    return steelyard(state, "tree", "calculator", *arguments, monkeypatch=monkeypatch)


def nodes(state: State, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, NodeDocument]:
    """Every node of the JSON tree by its name."""
    _, out, _ = tree(state, "-o", "json", *arguments, monkeypatch=monkeypatch)
    (root,) = JobTree.model_validate(json.loads(out)).items
    found: dict[str, NodeDocument] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        found[node.name] = node
        todo += node.children
    return found


def test_the_tree_goes_from_the_job_over_stages_and_workloads_to_pods(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = tree(state, monkeypatch=monkeypatch)
    assert (code, err) == (0, "")
    shape = [line[:40].rstrip() for line in out.splitlines()]
    assert shape[1].startswith("AgenticRLJob/calculator")
    assert any(line.startswith("├─environment") for line in shape)
    assert any(line.startswith("│ └─Deployment/calculator-environment") for line in shape)
    assert any(line.startswith("│   └─Pod/calculator-environment-") for line in shape)
    assert shape[-1].startswith("    └─Pod/calculator-trainer-whole")


def test_a_workload_names_the_revision_that_moved_it(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    found = nodes(state, monkeypatch)
    assert found["calculator-environment"].revision == "calculator-2"
    assert found["calculator-sampler-whole"].revision == "calculator-1"
    assert found["calculator"].revision == "calculator-2"
    assert (found["environment"].ready, found["bus"].ready) == ("2/2", "1/1")


NO_IMAGE = {"reason": "ImagePullBackOff", "message": "no x:1"}
TROUBLES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "no node": (
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                             "message": "0/3 nodes are available"}]},
        {}, "Unschedulable", "0/3 nodes are available",
    ),
    "no image": (
        {"phase": "Pending", "containerStatuses": [{"state": {"waiting": NO_IMAGE}}]}, {}, NO_IMAGE["reason"], "no x:1",
    ),
    "it goes away": ({"phase": "Running"}, {"deletionTimestamp": "2027-01-15T08:00:00Z"}, "Draining", ""),
    "it only starts": ({"phase": "Running"}, {}, "Starting", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", TROUBLES)
def test_a_pod_that_is_not_ready_says_why(state: State, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, metadata, want, why = TROUBLES[case]
    pod = one_of(state, POD, "sampler")
    pod["status"] = status
    pod["metadata"] |= metadata
    node = nodes(state, monkeypatch)[pod["metadata"]["name"]]
    assert (node.ready, node.state, node.reason or "") == ("0/1", want, why)


def test_a_workload_that_may_make_no_pods_says_so(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = one_of(state, DEPLOYMENT, "environment")
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    deployment["status"]["conditions"] = [failure]
    assert nodes(state, monkeypatch)["calculator-environment"].reason == "exceeded quota: gpus"


def test_a_pod_that_its_job_left_behind_hangs_below_its_stage(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = deepcopy(one_of(state, POD, "trainer"))
    stray["metadata"] |= {"name": "left", "uid": "u-left", "ownerReferences": []}
    put(state, stray)
    assert "left" in [child.name for child in nodes(state, monkeypatch)["trainer"].children]


def test_what_may_not_be_read_of_a_tree_is_said(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.denied[POD.path("default")] = FORBIDDEN
    code, out, err = tree(state, monkeypatch=monkeypatch)
    assert code == 0
    assert "SY1011 default/calculator: pods: User" in err
    assert "Deployment/calculator-environment" in out
    assert "Pod/" not in out


def test_a_tree_that_is_watched_writes_what_changes_and_ends_with_the_job(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = tree(state, monkeypatch=monkeypatch)[1]
    lost = deepcopy(one_of(state, POD, "sampler"))
    lost["status"] = {"phase": "Running", "conditions": []}
    done = deepcopy(state.objects[PATH])
    for condition in done["status"]["conditions"]:
        condition["status"] = "True" if condition["type"] in ("Complete", "Degraded") else "False"
    state.events[POD.path("default")] = [[("MODIFIED", lost)]]
    state.events[JOB.path("default")] = [[], [], [("MODIFIED", done)]]
    monkeypatch.setattr("steelyard.cluster.following.AGAIN_SECONDS", 0.2)
    code, out, _ = tree(state, "-w", monkeypatch=monkeypatch)
    assert code == 3, "the job is degraded"
    assert out.startswith(once)
    assert any("Starting" in line for line in out[len(once) :].splitlines())


def test_policy_versions_come_from_prometheus(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = one_of(state, POD, "sampler")["metadata"]["name"]
    monkeypatch.setattr(asking, "Asking", Answering({"version": [({"pod": pod}, 12.0)]}))
    assert nodes(state, monkeypatch, "--versions")[pod].policy_version == "12"


def test_without_prometheus_a_tree_says_so_and_stands(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = tree(state, "--versions", monkeypatch=monkeypatch)
    assert code == 0
    assert "SY1010 default/calculator: no Deployment with the label" in err
    assert "Pod/" in out


def history(state: State, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    _, out, _ = steelyard(state, "history", "calculator", "-o", "json", *arguments, monkeypatch=monkeypatch)
    return list(JobHistory.model_validate(json.loads(out)).items)


def test_history_tells_moves_their_verdicts_and_decisions_in_order(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = history(state, monkeypatch=monkeypatch)
    assert [one.time for one in found] == sorted(one.time for one in found)
    told = [(one.kind, one.subject) for one in found]
    assert ("Revision", "calculator-1") in told
    assert ("Revision", "calculator-2") in told
    assert ("Decision", "Hold (OpenMove)") in told
    assert {one.actor for one in found} == {"operator"}


def test_history_says_who_changed_which_fields(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"f:spec": {"f:stages": {"f:sampler": {"f:replicas": {"f:max": {}}}}, "f:budget": {"f:gpus": {}}}}
    state.objects[PATH]["metadata"]["managedFields"] = [
        {"manager": "argocd-controller", "operation": "Apply", "time": "2027-01-15T08:00:30Z", "fieldsV1": fields},
        {"manager": "steelyard", "operation": "Apply", "subresource": "status", "time": "2027-01-15T08:00:31Z",
         "fieldsV1": {"f:status": {}}},
    ]  # fmt: skip
    (change,) = [one for one in history(state, monkeypatch=monkeypatch) if one.kind == "Change"]
    assert (change.actor, change.subject, change.stages) == ("argocd-controller", "Apply", ["sampler"])
    assert change.text == "wrote spec.stages.sampler.replicas.max, spec.budget.gpus"


def test_a_users_revision_names_who_made_it_and_until_when_it_is_held(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = state.objects[REVISION.path("default", "calculator-2")]
    revision["spec"] |= {"origin": "User", "expiresAt": "2027-01-15T09:00:00Z"}
    revision["metadata"]["managedFields"] = [
        {"manager": "steelyard", "subresource": "status", "time": "2027-01-15T08:01:26Z"},
        {"manager": "steelyard-cli", "operation": "Update", "time": "2027-01-15T08:01:25Z"},
    ]
    found = next(one for one in history(state, monkeypatch=monkeypatch) if one.subject == "calculator-2")
    assert found.actor == "steelyard-cli"
    assert found.text.endswith("(held until 2027-01-15T09:00:00Z)")


def event(reason: str, message: str, at: str) -> Object:
    name = f"calculator.{reason}".lower()
    about = {"kind": "AgenticRLJob", "name": "calculator", "namespace": "default"}
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "source": {"component": "steelyard"},
    }


def test_events_are_told_unless_the_ledger_tells_them_better(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "2027-01-15T08:00:40Z"
    for reason in ("DriftRepaired", "Move", "VerdictKept"):
        put(state, event(reason, f"{reason} it is", at))
    assert [one.subject for one in history(state, monkeypatch=monkeypatch) if one.kind == "Event"] == ["DriftRepaired"]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["--stage", "environment"], {"calculator-1", "calculator-2"}),
        (["--stage", "sampler"], {"calculator-1"}),
        (["--since", "2027-01-15T08:01:00Z", "--stage", "environment"], {"calculator-2"}),
        (["--limit", "1"], {"Hold (OpenMove)"}),
    ],
)
def test_history_can_be_narrowed(
    state: State, arguments: list[str], want: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {one.subject for one in history(state, *arguments, monkeypatch=monkeypatch)} == want


def test_history_that_is_followed_writes_each_entry_once(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    news = event("DriftRepaired", "somebody changed it", "2027-01-15T09:00:00Z")
    news["metadata"] |= {"uid": "u-event", "resourceVersion": "7"}
    state.events[EVENT.path("default")] = [[("ADDED", news)], [("MODIFIED", news)]]
    gone = state.objects[PATH]
    state.events[JOB.path("default")] = [[], [], [("DELETED", gone)]]
    monkeypatch.setattr("steelyard.cluster.following.AGAIN_SECONDS", 0.2)
    code, out, _ = steelyard(state, "history", "calculator", "-f", monkeypatch=monkeypatch)
    assert code == 6
    assert out.count("DriftRepaired") == 1
    assert out.count("initial allocation") == 1
    assert out.count("TIME ") == 1


@pytest.mark.parametrize("command", ["tree", "history", "top"])
def test_a_job_that_is_not_there_is_an_error(state: State, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = steelyard(state, command, "nobody", monkeypatch=monkeypatch)
    assert (code, out) == (6, "")
    assert "SY1006 default/nobody: there is no such job" in err
