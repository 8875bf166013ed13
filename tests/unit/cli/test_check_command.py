"""`steelyard check`: each thing that can be wrong has its code, and none hides another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api import AgenticRLJob
from steelyard.cli.checking import metrics
from steelyard.cli.checking.capacity import NODE, STORAGE_CLASS, least
from steelyard.cli.checking.cluster import DEPLOYMENT
from steelyard.cli.checking.jobs import referred
from steelyard.cluster.kinds import BY_NAME, JOB, LEASE, POD, Object
from tests.builders import a_job, job_manifest
from tests.unit.cli.documents import CheckedDocument, CheckReport
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import Answering, lived, one_of, steelyard

PATH = JOB.path("default", "calculator")
OPERATOR = DEPLOYMENT.path("steelyard-system", "steelyard-operator")
LEASE_PATH = LEASE.path("steelyard-system", "steelyard-operator")
API = "/apis/steelyard.dev/v1alpha1"
FORBIDDEN = 'Error from server (Forbidden): User "v" may not'
WANDB = {"name": "wandb", "key": "api-key"}
TEMPLATE = {
    "spec": {
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "v", "secret": {"secretName": "optional-one", "optional": True}}],
        "containers": [
            {
                "name": "worker",
                "env": [{"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "k"}}}],
            }
        ],
    }
}


LABELS = {"app.kubernetes.io/name": "steelyard", "app.kubernetes.io/component": "operator"}


def everything(job: Object) -> list[Object]:
    """What the job names, an operator that acts, a node with GPUs and a storage class."""
    container = {"name": "operator", "image": "operator:1", "env": []}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "steelyard-operator", "namespace": "steelyard-system", "labels": LABELS},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"readyReplicas": 1},
    }
    lease = {
        "kind": "Lease",
        "metadata": {"name": "steelyard-operator", "namespace": "steelyard-system"},
        "spec": {
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseDurationSeconds": 15,
            "holderIdentity": "operator-0",
        },
    }
    allocatable = {"cpu": "8", "nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "4"}
    node = {"kind": "Node", "metadata": {"name": "node-1"}, "spec": {}, "status": {"allocatable": allocatable}}
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {"kind": "StorageClass", "metadata": {"name": "fast", "annotations": default}}
    named = [
        {"kind": one.kind.name, "metadata": {"name": one.name, "namespace": "default"}}
        for one in referred(AgenticRLJob.from_cluster({**job, "status": {}}))
    ]
    return [deployment, lease, node, storage, *named]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    """A cluster in which all is well."""
    state = lived(50).state()
    put(state, *everything(state.objects[PATH]))
    plurals = ("agenticrljobs", "allocationrevisions", "rlpools")
    state.objects[API] = {"resources": [{"name": name} for name in plurals]}
    monkeypatch.setattr(metrics, "Asking", Answering({"up": [({}, 1.0)], **series(state)}))
    return state


def series(state: State, without: str = "") -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every series of every pod, but for one metric."""
    pods = [obj["metadata"]["name"] for path, obj in state.objects.items() if path.startswith(POD.path("default"))]
    names = {metric for needed in metrics.NEEDED.values() for metric in needed} - {without}
    return {name: [({"pod": pod}, 1.0) for pod in pods] for name in names}


def check(state: State, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[CheckedDocument]]:
    code, out, _ = steelyard(state, "check", "-o", "json", *arguments, monkeypatch=monkeypatch)
    return code, CheckReport.model_validate(json.loads(out)).items


def test_a_cluster_in_which_all_is_well_ends_with_0(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = check(state, monkeypatch=monkeypatch)
    assert [one for one in found if one.level != "ok"] == []
    assert code == 0
    assert {one.category for one in found} == {"cluster", "operator", "rights", "metrics", "capacity", "jobs"}


def stale(state: State) -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    state.objects[LEASE_PATH]["spec"]["renewTime"] = long_ago.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def unpullable(state: State) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    one_of(state, POD, "sampler")["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"state": {"waiting": waiting}}],
    }


def degraded(state: State) -> None:
    for condition in state.objects[PATH]["status"]["conditions"]:
        if condition["type"] == "Degraded":
            condition |= {"status": "True", "reason": "CrashLoopBackOff", "message": "pod x"}


def a_quota(
    state: State, resource: str = "requests.nvidia.com/gpu", most: str = "4", used: str = "4", **spec: Any
) -> None:
    status = {"hard": {resource: most}, "used": {resource: used}}
    metadata = {"name": "team", "namespace": "default"}
    put(state, {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": status})


def cordoned(state: State) -> None:
    state.objects[NODE.path(name="node-1")]["spec"]["unschedulable"] = True


def broken(state: State) -> None:
    state.objects[PATH]["spec"]["budget"]["gpus"] = -1


def lose(path: str) -> Callable[[State], object]:
    return lambda state: state.objects.pop(path)


def deny(path: str) -> Callable[[State], object]:
    return lambda state: state.denied.update({path: FORBIDDEN})


WRONG: dict[str, tuple[Callable[[State], object], str, int, str]] = {
    "our resources are not installed": (lambda s: s.objects[API].update(resources=[]), "SY2003", 3, "agenticrljobs"),
    "there is no operator": (lose(OPERATOR), "SY2004", 3, "no Deployment has the labels"),
    "the operator is not ready": (lambda s: s.objects[OPERATOR].update(status={}), "SY2004", 3, "0 replicas are ready"),
    "nobody renews the Lease": (stale, "SY2005", 3, "held by operator-0, renewed 5m"),
    "there is no Lease": (lose(LEASE_PATH), "SY2005", 3, "no operator has ever acted"),
    "the user may not read pods": (deny(POD.path("default")), "SY2006", 3, "list pods"),
    "the user may not create jobs": (deny(JOB.path("default")), "SY2007", 3, "create agenticrljobs"),
    "there are no GPUs": (lose(NODE.path(name="node-1")), "SY2010", 3, "its minima ask for"),
    "a node is cordoned": (cordoned, "SY2010", 3, "have 0"),
    "there is no storage class": (lose(STORAGE_CLASS.path(name="fast")), "SY2011", 3, "no default one"),
    "a quota is used up": (a_quota, "SY2012", 4, "leaves 0 nvidia.com/gpu: nothing can grow"),
    "a quota of CPUs is used up": (lambda s: a_quota(s, "cpu"), "SY2012", 4, "leaves 0 CPUs: nothing can grow"),
    "a quota counts some pods": (lambda s: a_quota(s, scopes=["BestEffort"]), "SY1011", 0, "its scopes say which"),
    "an image cannot be pulled": (unpullable, "SY2014", 3, "ImagePullBackOff: no such image"),
    "a job is degraded": (degraded, "SY2015", 3, "Degraded: CrashLoopBackOff: pod x"),
    "a spec breaks a rule": (broken, "SY1110", 3, "spec.budget.gpus: -1"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found_and_hides_nothing(state: State, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil, want, exit_code, words = WRONG[case]
    categories = {one.category for one in check(state, monkeypatch=monkeypatch)[1]}
    spoil(state)
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == exit_code
    assert any(one.code == want and words in one.message for one in found), found
    assert {one.category for one in found} == categories
    assert all((one.code is None) == (one.level == "ok") for one in found)


def test_what_a_job_names_must_be_there(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    job = state.objects[PATH]
    named = job["spec"]["tasks"]["configMap"]["name"]
    job["spec"]["stages"]["trainer"]["template"] = TEMPLATE
    del state.objects[BY_NAME["ConfigMap"].path("default", named)]
    _, found = check(state, monkeypatch=monkeypatch)
    said = [one.message for one in found if one.code == "SY2013"]
    assert f"spec.tasks.configMap: there is no ConfigMap {named}" in said
    assert "spec.stages.trainer.template.spec.worker.env: there is no Secret wandb" in said
    assert "spec.stages.trainer.template.spec.imagePullSecrets: there is no Secret registry" in said
    assert not any("optional-one" in one for one in said)


def test_a_secret_that_may_not_be_read_is_no_failure(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.objects[PATH]["spec"]["stages"]["trainer"]["template"] = TEMPLATE
    state.denied["/api/v1/namespaces/default/secrets"] = FORBIDDEN
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == 0
    assert {one.level for one in found if "Secret" in one.message} == {"unknown"}


@pytest.mark.parametrize("metric", ["steelyard_stage_units_total", "vllm:generation_tokens_total"])
def test_a_series_that_is_missing_is_named_with_its_stage(
    state: State, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "Asking", Answering({"up": [({}, 1.0)], **series(state, without=metric)}))
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == 3
    said = [one for one in found if one.code == "SY2009"]
    assert said
    assert all(metric in one.message for one in said)
    assert all(one.object.startswith("stage ") for one in said)


def test_a_prometheus_that_does_not_answer_is_a_failure(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Answering({})
    silent.why_not = "connection refused"  # type: ignore[assignment]
    monkeypatch.setattr(metrics, "Asking", silent)
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == 3
    assert [one.message for one in found if one.code == "SY1010"] == ["connection refused"]


def written(tmp_path: Path, changes: Mapping[str, Any]) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_manifest(changes)))
    return str(file)


def test_a_file_is_checked_by_the_types_and_against_the_cluster(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_quota(state)
    code, found = check(
        state, "-f", written(tmp_path, {"code": {"configMap": {"name": "nope"}}}), monkeypatch=monkeypatch
    )
    assert code == 3
    said = {one.code: one.message for one in found if one.level == "failure"}
    assert said["SY2013"] == "spec.code.configMap: there is no ConfigMap nope"
    assert said["SY2012"].startswith("ResourceQuota team leaves 0 nvidia.com/gpu, its minima ask for ")


def test_a_quota_of_memory_is_held_against_what_the_pods_of_a_file_request(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_quota(state, "requests.memory", most="64Gi", used="60Gi")
    worker = {"name": "worker", "resources": {"limits": {"memory": "6Gi"}}}
    file = written(tmp_path, {"stages.environment.template": {"spec": {"containers": [worker]}}})
    code, found = check(state, "-f", file, monkeypatch=monkeypatch)
    assert code == 3
    (said,) = [one.message for one in found if one.code == "SY2012"]
    assert said == "ResourceQuota team leaves 4 GiB of memory, its minima ask for 6 GiB of memory"


def test_a_file_that_breaks_a_rule_names_field_value_and_rule(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, {"budget.gpus": -1})
    code, out, err = steelyard(state, "check", "-f", file, monkeypatch=monkeypatch)
    assert (code, out) == (3, "")
    assert f"SY1110 {file}: spec.budget.gpus: -1" in err


@pytest.mark.parametrize("content", ["kind: Pod\n", "{", ""])
def test_a_file_without_a_job_is_a_usage_error(
    state: State, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.yaml").write_text(content)
    assert steelyard(state, "check", "-f", str(tmp_path / "x.yaml"), monkeypatch=monkeypatch)[0] == 2


def test_before_installing_only_what_matters_then_is_asked(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = check(state, "--pre", monkeypatch=monkeypatch)
    assert {one.category for one in found} == {"cluster", "capacity"}
    assert code == 0
    state.denied[DEPLOYMENT.path("default")] = FORBIDDEN
    code, found = check(state, "--pre", monkeypatch=monkeypatch)
    assert code == 3
    assert [one.message for one in found if one.code == "SY2008"] == ["may not create deployments"]


def test_short_shows_only_what_is_wrong(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    degraded(state)
    code, out, _ = steelyard(state, "check", "-o", "short", monkeypatch=monkeypatch)
    assert code == 3
    line, summary = out.splitlines()
    assert line.startswith("  NO SY2015 job default/calculator: Degraded")
    assert line.endswith("(see docs/messages.md#sy2015)")
    assert summary.startswith("1 failed, 0 warnings, 0 not looked at, ")


def test_waiting_ends_when_nothing_fails_any_more_or_time_is_over(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.cli.commands.check.AGAIN_SECONDS", 0.01)
    assert steelyard(state, "check", "--wait", monkeypatch=monkeypatch)[0] == 0
    degraded(state)
    code, _, err = steelyard(state, "check", "--wait", "--timeout", "1s", monkeypatch=monkeypatch)
    assert code == 5
    assert "1 checks fail, looking again ..." in err


def test_the_smallest_allocation_is_counted_in_the_cheapest_profiles() -> None:
    job = a_job({"stages.sampler.replicas": {"min": 2, "max": 3}})
    assert float(least(job)["nvidia.com/gpu.shared"]) >= 2
