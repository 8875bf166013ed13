"""Moves of capacity on a real API server: within the budget, once, and without a trace on the user's object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.shell import Failed
from e2e.kube import Object
from steelyard.api import Stage
from tests.builders import job_manifest
from tests.integration.operator.operating import FIXED, SOON, Operated, by_hand
from tests.integration.processes import Prometheus
from tests.integration.server import Refused
from tests.integration.workers import Workers, stage_work

SAMPLERS, JUDGES = "calculator-sampler-whole", "calculator-reward-server-whole"
COST = "controller.kubernetes.io/pod-deletion-cost"
MANY = 20
NO_PROFILE = {"whole": None, "slice": None}
pytestmark = pytest.mark.timeout(240, func_only=True)


def fixed(**stages: dict[str, int]) -> Object:
    """A change of the spec to these replicas; stages are named as in the resource, profiles left out have none."""
    return {"scaling": {"fixed": {stage: {**NO_PROFILE, **profiles} for stage, profiles in stages.items()}}}


def test_a_profile_changes_pod_by_pod_within_the_budget(operated: Operated) -> None:
    operated.start()

    with operated.kubelet.drains_for(1.5), operated.gpu_log() as gpus:
        operated.change(fixed(sampler={"slice": 4}))
        want = {"calculator-sampler-slice": 4}
        operated.until("all samplers are slices", lambda: want.items() <= operated.replicas().items())
        operated.until("they are ready", lambda: ready_of(operated, "sampler", "slice") == 4)

    assert SAMPLERS not in operated.replicas()
    assert max(gpus) <= 4
    assert len(set(gpus)) > 1, "the log saw nothing move"
    assert operated.condition("Reconciling")["status"] == "False", "a move of ours is no reconciliation"


def ready_of(operated: Operated, stage: str, profile: str) -> int:
    profiles: dict[str, Any] = operated.job()["status"]["stages"][stage]["profiles"]
    ready: int = profiles[profile]["ready"]
    return ready


def test_a_gpu_goes_from_one_stage_to_another_when_it_is_free(operated: Operated) -> None:
    operated.start()

    with operated.kubelet.drains_for(1.5), operated.gpu_log() as gpus:
        operated.change(fixed(sampler={"whole": 1}, rewardServer={"whole": 2}))
        want = {SAMPLERS: 1, JUDGES: 2}
        operated.until("the judge has the GPU", lambda: want.items() <= operated.replicas().items())
        operated.until("it is ready", lambda: ready_of(operated, "rewardServer", "whole") == 2)

    assert max(gpus) <= 4
    assert operated.has("Ready")
    (left,) = operated.pods("sampler")
    assert left["metadata"]["annotations"][COST] == "0", "victims were chosen by what they have to lose"


@contextmanager
def deployments_refused(operated: Operated) -> Iterator[None]:
    """The API server admits no change of a Deployment's spec in this namespace while the block lasts."""
    name = f"{operated.namespace}-no-deployments"
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operated.namespace}},
            "resourceRules": [rule],
        },
        "validations": [{"expression": "object.spec == oldObject.spec", "message": "not today"}],
    }
    operated.server.request("POST", policies, {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    operated.server.request("POST", bindings, {"metadata": {"name": name}, "spec": binding})
    try:
        operated.until("changes are refused", lambda: not _can_change(operated))
        yield
    finally:
        operated.server.request("DELETE", f"{bindings}/{name}")
        operated.server.request("DELETE", f"{policies}/{name}")


def _can_change(operated: Operated) -> bool:
    path = f"/apis/apps/v1/namespaces/{operated.namespace}/deployments/{SAMPLERS}"
    change = {"spec": {"minReadySeconds": 1}}
    try:
        operated.server.request("PATCH", path, change, params={"dryRun": "All"})
    except Refused:
        return False
    return True


def test_an_operator_killed_between_record_and_apply_finishes_the_same_move_once(operated: Operated) -> None:
    operated.start()
    with deployments_refused(operated):
        operated.change(fixed(sampler={"whole": 1}))
        operated.until("the move is recorded", lambda: operated.revisions() == ["calculator-1", "calculator-2"])
        operated.until("the refusal is said", lambda: operated.has("Degraded"))
        assert operated.condition("Degraded")["reason"] == "ApplyRefused"
        assert "not today" in operated.condition("Degraded")["message"]
        operated.operator.kill()
        assert operated.replicas()[SAMPLERS] == 2
    before = operated.objects()["Deployment", SAMPLERS]["metadata"]["generation"]

    operated.operator.start()
    operated.until("the move is made", lambda: operated.replicas()[SAMPLERS] == 1)
    operated.until("nothing is wrong any more", lambda: operated.has("Degraded", "False"))

    assert operated.revisions() == ["calculator-1", "calculator-2"]
    assert operated.objects()["Deployment", SAMPLERS]["metadata"]["generation"] == before + 1


def test_an_entry_by_hand_without_its_label_is_told_until_it_has_it(operated: Operated) -> None:
    """It has the name that the operator's next entry would have, and nothing says whose ledger it belongs to."""
    operated.start()
    held = operated.objects()["AllocationRevision", "calculator-1"]["spec"]["allocation"]["after"]
    entry = by_hand(2, held, held)
    labels = entry["metadata"].pop("labels")
    operated.server.apply([entry], operated.namespace)

    operated.change(fixed(sampler={"whole": 1}))
    operated.until("it is told", lambda: "calculator-2" in operated.condition("Degraded").get("message", ""))
    assert "label steelyard.dev/job: calculator" in operated.condition("Degraded")["message"]
    assert operated.replicas()[SAMPLERS] == 2, "nothing is applied that no entry holds"

    operated.server.patch("AllocationRevision", operated.namespace, "calculator-2", {"metadata": {"labels": labels}})
    operated.until("nothing is wrong any more", lambda: operated.has("Degraded", "False"))


def test_an_edited_child_is_repaired_and_the_event_says_who_it_was(operated: Operated) -> None:
    """ai-dynamo/dynamo#4420: a child edited by hand while the planner believes it is at its target."""
    operated.start()
    path = f"/apis/apps/v1/namespaces/{operated.namespace}/deployments/{SAMPLERS}"

    operated.server.request("PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, params={"fieldManager": "somebody"})
    operated.until("replicas are repaired", lambda: operated.replicas()[SAMPLERS] == 2)
    foreign = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    operated.server.request("PATCH", path, foreign, params={"fieldManager": "somebody-else"})
    operated.until("the template is repaired", lambda: _grace(operated) == 330)

    operated.until("both are told", lambda: len(operated.events("DriftRepaired")) >= 2)
    told = "\n".join(operated.events("DriftRepaired"))
    assert f"somebody changed Deployment {SAMPLERS}" in told
    assert f"somebody-else changed Deployment {SAMPLERS}" in told


def _grace(operated: Operated) -> int:
    spec = operated.objects()["Deployment", SAMPLERS]["spec"]["template"]["spec"]
    seconds: int = spec["terminationGracePeriodSeconds"]
    return seconds


def test_children_deleted_one_after_the_other_come_back(operated: Operated) -> None:
    """Claims apart: Kubernetes keeps a claim as long as a pod uses it. A Job deleted this way leaves its pod behind."""
    operated.start()
    names = set(operated.objects())

    for kind, name in sorted(names):
        if kind not in ("AllocationRevision", "PersistentVolumeClaim"):
            operated.server.delete(kind, operated.namespace, name)
    operated.until("everything is there again", lambda: set(operated.objects()) == names and _none_leaves(operated))
    operated.until("the job is ready", lambda: operated.has("Ready"))


def _none_leaves(operated: Operated) -> bool:
    return not any("deletionTimestamp" in obj["metadata"] for obj in operated.objects().values())


def test_an_autoscaler_on_a_child_is_a_conflict_and_its_replicas_are_its_own(operated: Operated) -> None:
    """kedacore/keda#3087: two controllers that scale one target."""
    operated.start()
    name = "calculator-environment"
    autoscalers = f"/apis/autoscaling/v2/namespaces/{operated.namespace}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    body = {"metadata": {"name": "mine"}, "spec": {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}}

    operated.server.request("POST", autoscalers, body)
    operated.until("the conflict is said", lambda: operated.has("Conflict"))
    operated.until("its replicas stay", lambda: operated.replicas()[name] == 3)
    operated.change({"stages": {"environment": {"concurrency": 8}}})
    operated.until("the new template is out", lambda: operated.has("Ready") and operated.replicas()[name] == 3)
    assert name in operated.condition("Conflict")["message"]

    operated.server.request("DELETE", f"{autoscalers}/mine")
    operated.until("it is ours again", lambda: operated.has("Conflict", "False") and operated.replicas()[name] == 1)


def test_twenty_moves_leave_no_trace_on_the_users_object_and_git_finds_nothing_to_do(
    operated: Operated, cluster: Cluster
) -> None:
    """ray-project/kuberay#1120: an autoscaler that writes to the user's object fights with GitOps."""
    operated.start()
    manifest = json.dumps(job_manifest(FIXED, namespace=operated.namespace))
    apply(cluster, manifest)
    start = operated.objects()["AllocationRevision", "calculator-1"]["spec"]["allocation"]["after"]
    other = {**start, "sampler": {"whole": 1}, "rewardServer": {"whole": 2}}
    before = operated.job()

    with operated.gpu_log() as gpus:
        for number in range(2, MANY + 2):
            held, after = (start, other) if number % 2 == 0 else (other, start)
            operated.server.apply([by_hand(number, held, after)], operated.namespace)
            operated.until("Git and the cluster agree", lambda: agrees(cluster, manifest))
            apply(cluster, manifest)
            want = {SAMPLERS: after["sampler"]["whole"], JUDGES: after["rewardServer"]["whole"]}
            operated.until(f"move {number} is made", partial(_has, operated, want))

    after = operated.job()
    assert max(gpus) <= 4
    assert after["status"]["activeRevision"] == f"calculator-{MANY + 1}"
    assert after["spec"] == before["spec"]
    assert _metadata(after) == _metadata(before)


def apply(cluster: Cluster, manifest: str) -> None:
    """As a GitOps tool does at each of its intervals; it fails where somebody else owns a field with another value."""
    cluster.kubectl("apply", "--server-side", "--field-manager=gitops", "--filename=-", stdin=manifest)


def agrees(cluster: Cluster, manifest: str) -> bool:
    """Whether `kubectl diff` shows nothing. It reads twice, so a status written between counts as a difference."""
    try:
        cluster.kubectl("diff", "--server-side", "--field-manager=gitops", "--filename=-", stdin=manifest)
    except Failed:
        return False
    return True


def _has(operated: Operated, want: dict[str, int]) -> bool:
    return want.items() <= operated.replicas().items()


def _metadata(job: Object) -> Object:
    """All but the version, and the time at which the API server notes that our status changed, which also orders."""
    metadata = {key: value for key, value in job["metadata"].items() if key != "resourceVersion"}
    metadata["managedFields"].sort(key=lambda entry: (entry["manager"], entry.get("subresource", "")))
    for entry in metadata["managedFields"]:
        if entry.get("subresource") == "status":
            assert entry.pop("time")
    return metadata


def test_without_prometheus_nothing_moves_and_the_condition_says_why(
    operated: Operated, prometheus: Prometheus, workers: Workers
) -> None:
    """kedacore/keda#3064: an empty answer is unknown, not zero."""
    for stage in Stage:
        work = stage_work(stage, 1.0, busy=0.5, starved=0.5)
        if stage is Stage.SAMPLER:
            work = replace(work, counters={**work.counters, "vllm:generation_tokens_total": 100.0})
        workers.show(operated.namespace, "calculator", stage.value, work)
    operated.start({"scaling": {"mode": "Dynamic", "intervalSeconds": 1}})
    operated.until("metrics are read", lambda: operated.has("MetricsAvailable"))
    before = operated.replicas()

    prometheus.stop()
    try:
        operated.until("the loss is said", lambda: operated.has("MetricsAvailable", "False"))
        assert operated.condition("MetricsAvailable")["reason"] == "Unreachable"
        operated.operator.stop()
        operated.operator.start()
        operated.until(
            "a new operator says so too", lambda: operated.condition("MetricsAvailable")["reason"] == "Unreachable"
        )
        assert operated.replicas() == before
        assert operated.revisions() == ["calculator-1"]
        assert operated.has("Ready")
    finally:
        prometheus.start()
    operated.until("metrics are read again", lambda: operated.has("MetricsAvailable"), SOON)
