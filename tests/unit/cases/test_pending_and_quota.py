"""Pods that wait, are refused or cannot start: waiting is not failing, and the reason is told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.api import AgenticRLJob, InvalidResource, RevisionPhase, Stage, Verdict
from steelyard.balance.types import PodView, Rates
from steelyard.balance.verdict import Judgement, judge
from steelyard.children.rollout import Workload
from steelyard.cluster.problems import Problem
from steelyard.cluster.records import child
from steelyard.status import status
from tests.builders import SLICE, a_job, job_manifest
from tests.unit.balance.builders import NOW, START, a_pod, a_view, pods_of
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_gate import a_trial, time
from tests.unit.balance.test_verdict import AFTER, a_move
from tests.unit.operator.test_rollout import ENVIRONMENT, JUDGE, TRAINER, WHOLE, running, step
from tests.unit.operator.test_rollout import SLICE as SLICE_SLOT
from tests.unit.operator.ticks import a_tick, broken

QUOTA = (
    'pods "calculator-environment-x" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=9, limited: 9'
)


def applying(waited: float, *, problem: str | None = None, refused: str | None = None) -> Judgement:
    """Environment 1 -> 2 was applied `waited` seconds ago and the second replica is not ready."""
    new = a_pod("new", Stage.ENVIRONMENT, "default", ready=False)
    pods: list[PodView] = [*pods_of(START), *([] if refused else [_with(new, problem)])]
    revision = a_move(RevisionPhase.APPLYING, applied_time=time(NOW - waited))
    seen = a_view(demo_job(), allocation=AFTER, pods=pods, revisions=(revision,))
    if refused:
        counts = seen.stages[Stage.ENVIRONMENT]["default"]
        stages = {**seen.stages, Stage.ENVIRONMENT: {"default": _with_refusal(counts, refused)}}
        seen = type(seen)(seen.job, seen.revisions, stages)
    return judge(revision, seen, Rates(), NOW)


def _with(pod: PodView, problem: str | None) -> PodView:
    return PodView(pod.name, pod.uid, pod.stage, pod.profile, pod.ready, created=pod.created, problem=problem)


def _with_refusal(counts: Any, refused: str) -> Any:
    return type(counts)(counts.desired, counts.ready, 0, 0, counts.pods, refused=refused)


@pytest.mark.parametrize("waited", [400.0, 4000.0, 1e6])
def test_a_gated_pod_is_waited_for_and_never_deleted_for_slowness(waited: float) -> None:
    """kubernetes-sigs/agent-sandbox#1735: SchedulingGated pods were reaped, and orphan Workloads held the quota."""
    got = applying(waited, problem="SchedulingGated")
    assert not got.roll_back
    assert got.status.verdict is None
    assert got.progress.startswith("a queue holds its pods back for")


@pytest.mark.parametrize("waited", [60.0, 310.0, 1700.0])
def test_an_image_that_is_still_pulled_restarts_nothing(waited: float) -> None:
    """kubernetes-sigs/lws#725: a group restarted in a loop while its images were still being pulled."""
    assert not applying(waited).roll_back


def test_what_a_quota_refuses_is_told_at_once_and_given_up_within_a_minute() -> None:
    """ray-project/kuberay#4846: a refusal stayed invisible for up to an hour, and the scaler went on asking."""
    assert "exceeded quota" in applying(5, refused=QUOTA).progress
    assert not applying(29, refused=QUOTA).roll_back
    late = applying(31, refused=QUOTA)
    assert late.roll_back
    assert late.status.verdict is Verdict.ROLLED_BACK
    assert "exceeded quota: gpus" in (late.status.evidence or "")


def test_a_refusal_is_read_from_the_deployment_and_becomes_a_condition() -> None:
    """ray-project/kuberay#4846, kubeflow/trainer#3671: the API server's words reach the user."""
    conditions = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}]
    metadata = {"name": "calculator-environment", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    refused = child("Deployment", {"metadata": metadata, "spec": {"replicas": 2}, "status": {"conditions": conditions}})
    tick = a_tick()
    tick.view.children[refused.kind, refused.name] = refused  # type: ignore[index]
    told = status(tick).condition("QuotaReserved")
    assert told is not None
    assert (told.status, told.reason) == ("False", "Refused")
    assert "Deployment calculator-environment may make no more pods" in told.message
    assert "exceeded quota: gpus" in told.message


def test_a_queue_that_holds_pods_back_is_told() -> None:
    gated = Problem("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    told = status(a_tick(pods=broken(gated, bound=False))).condition("QuotaReserved")
    assert told is not None
    assert (told.status, told.reason) == ("False", "SchedulingGated")


STUCK: dict[str, tuple[Problem, dict[str, Any], str, str]] = {
    "shortage": (Problem("Unschedulable", "0/3 nodes have a GPU"), {"bound": False}, "Scheduled", "Unschedulable"),
    "a bad image": (Problem("ImagePullBackOff", "no such image"), {}, "Degraded", "ImagePullBackOff"),
    "a restart loop": (Problem("CrashLoopBackOff", "exit code 1", 1), {}, "Degraded", "CrashLoopBackOff"),
}


@pytest.mark.parametrize("case", STUCK)
def test_why_a_job_does_not_start_is_told(case: str) -> None:
    """ray-project/kuberay#4178, ray-project/kuberay#1991, ray-project/kuberay#1990: Initializing for ever."""
    problem, fields, condition, reason = STUCK[case]
    told = status(a_tick(pods=broken(problem, **fields))).condition(condition)
    assert told is not None
    assert told.reason == reason
    assert problem.message in told.message


def test_with_room_for_some_only_the_trainer_starts_first_and_nothing_deadlocks() -> None:
    """ray-project/kuberay#3592: workers took the GPUs while the head was pending."""
    target = {WHOLE: 3, JUDGE: 1, TRAINER: 1}
    assert step(target, {}, 1) == {TRAINER: 1}
    assert step(target, {TRAINER: running(1)}, 2) == {JUDGE: 1}
    assert step(target, {TRAINER: running(1), JUDGE: running(1)}, 3) == {WHOLE: 1}


def test_creates_are_bounded_by_what_was_asked_for_already() -> None:
    """kubernetes-sigs/agent-sandbox#1215: 20,000 were asked for and 100,000 made while the cache was stale."""
    stale = {WHOLE: Workload(desired=4, caught_up=False, created=0, alive=0)}
    for _ in range(20):
        assert step({WHOLE: 4, JUDGE: 2}, stale, 6) == {}  # four are on their way, whoever has seen them
    assert step({WHOLE: 4, JUDGE: 9}, {WHOLE: Workload(desired=4, created=4, alive=0)}, 6) == {JUDGE: 2}


def test_pending_replicas_neither_stop_a_scale_down_nor_outlive_working_ones() -> None:
    """kubernetes/kubernetes#79158: unschedulable pods stopped the scale-down."""
    half = Workload(desired=4, created=4, alive=4, ready=2)
    assert step({WHOLE: 2}, {WHOLE: half}, 4) == {WHOLE: 2}
    mixed = {WHOLE: running(2), SLICE_SLOT: Workload(desired=2, created=2, alive=2, ready=0)}
    assert step({WHOLE: 2, ENVIRONMENT: 1}, mixed, 4) == {SLICE_SLOT: 0, ENVIRONMENT: 1}
    smaller = START.replace(Stage.SAMPLER, {"whole": 1})
    revision = a_trial(2, None, NOW - 20, START, smaller, applied_time=time(NOW - 20)).model_copy()
    revision = revision.model_copy(
        update={"status": revision.status.model_copy(update={"phase": RevisionPhase.APPLYING})}
    )
    pods = [*pods_of(smaller), a_pod("stuck", Stage.SAMPLER, ready=False)]
    assert judge(revision, a_view(allocation=smaller, pods=pods), Rates(), NOW).status.phase is RevisionPhase.SETTLING


def test_more_than_one_share_of_a_shared_device_is_refused() -> None:
    """NVIDIA/k8s-device-plugin#929, NVIDIA/k8s-device-plugin#1208: requests of more than 1 are rejected under MPS."""
    two = {**SLICE, "resources": {"nvidia.com/gpu.shared": 2}}
    with pytest.raises(InvalidResource, match=r"nvidia.com/gpu.shared: 2.* must be 1"):
        AgenticRLJob.from_cluster(job_manifest({"stages.sampler.gpuProfiles": [two]}))
    assert a_job({"stages.sampler.gpuProfiles": [SLICE]}).spec.gpu_prices[Stage.SAMPLER] == {"slice": Fraction(1, 2)}
