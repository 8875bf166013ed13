"""`steelyard check`: each thing that can be wrong has its code, and none hides another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.cli.checking import metrics
from steelyard.cli.checking.capacity import NODE, STORAGE_CLASS
from steelyard.cli.checking.cluster import DEPLOYMENT
from steelyard.cluster.errors import Unreachable
from steelyard.cluster.kinds import BY_NAME, JOB, LEASE, POD
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.cli.well import API, PATH, a_quota, check, series, well
from tests.unit.cli.world import Answering, one_of, steelyard

OPERATOR = DEPLOYMENT.path("steelyard-system", "steelyard-operator")
LEASE_PATH = LEASE.path("steelyard-system", "steelyard-operator")
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


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    return well(monkeypatch)


def test_a_cluster_in_which_all_is_well_ends_with_0(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = check(state, monkeypatch=monkeypatch)
    assert [one for one in found if one.level != "ok"] == []
    assert code == 0
    assert {one.category for one in found} == {"cluster", "operator", "rights", "metrics", "capacity", "jobs"}


def test_the_lease_is_the_one_that_the_operator_says(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a release by another name."""
    lease = state.objects.pop(LEASE_PATH)
    put(state, {**lease, "metadata": {"name": "balance-steelyard-operator", "namespace": "steelyard-system"}})
    (container,) = state.objects[OPERATOR]["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "STEELYARD_LEASE_NAME", "value": "balance-steelyard-operator"}]
    _, found = check(state, monkeypatch=monkeypatch)
    (said,) = [one for one in found if one.object.startswith("Lease ")]
    assert (said.level, said.object) == ("ok", "Lease steelyard-system/balance-steelyard-operator")


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
    "there is no Lease": (lose(LEASE_PATH), "SY2005", 3, "no operator has acted here"),
    "the Lease is empty": (lambda s: s.objects[LEASE_PATH].pop("spec"), "SY2005", 3, "nobody has ever held it"),
    "the user may not read pods": (deny(POD.path("default")), "SY2006", 3, "list pods"),
    "the user may not read logs": (deny(f"{POD.path('default')}/*/log"), "SY2006", 3, "may not get pods/log:"),
    "the user may not create jobs": (deny(JOB.path("default")), "SY2007", 3, "create agenticrljobs, patch agentic"),
    "the user may not forward ports": (deny(f"{POD.path('default')}/*/portforward"), "SY2007", 4, "create pods/portf"),
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


NO_TEMPLATES = {
    "names where objects are meant": ({"spec": {"imagePullSecrets": ["registry"]}}, "spec.imagePullSecrets[0]: "),
    "an object where a list is meant": ({"spec": {"containers": {"name": "worker"}}}, "spec.containers: Input should"),
    "no name": ({"spec": {"volumes": [{"secret": {}}]}}, "spec.volumes[0].secret.secretName: Field required"),
    "no pod at all": ({"spec": "worker"}, 'spec: "worker": '),
}


@pytest.mark.parametrize(("template", "words"), NO_TEMPLATES.values(), ids=NO_TEMPLATES)
def test_a_template_that_is_none_is_named_with_its_field(
    state: State, template: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.objects[PATH]["spec"]["stages"]["trainer"]["template"] = template
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == 3
    (said,) = [one for one in found if one.code == "SY1110"]
    assert said.message.startswith(f"spec.stages.trainer.template: {words}")


def test_a_cluster_that_does_not_answer_is_said_once(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise Unreachable("no such host")

    monkeypatch.setattr(FakeKubectl, "run", refuse)
    code, found = check(state, monkeypatch=monkeypatch)
    assert code == 3
    assert [(one.category, one.code, one.message) for one in found] == [("cluster", "SY2001", "no such host")] * 2


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
    assert "1 check failed, looking again ..." in err
