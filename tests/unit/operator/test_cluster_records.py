"""What is remembered of an object, read from what an API server really sends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest

from steelyard.api import Stage
from steelyard.cluster.problems import Problem
from steelyard.cluster.records import Child, child, job, pod
from steelyard.cluster.view import seen
from tests.builders import job_manifest
from tests.unit.operator.ticks import a_pod as runs
from tests.unit.operator.ticks import a_tick

METADATA = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 3}


def a_pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    created = {"creationTimestamp": "2026-11-29T20:00:00Z"}
    return {"metadata": {**METADATA, **created, **metadata}, "spec": {"nodeName": "node-1"}, "status": status}


def container(state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "worker", "state": state, "lastState": last or {}}], "phase": "Running"}


BACK_OFF = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nope:1"'}}
CRASH_LOOP = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
NO_ENTRYPOINT = {"terminated": {"exitCode": 64, "reason": "Error", "message": "no module\nnamed nope"}}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}

PROBLEMS: dict[str, tuple[dict[str, Any], Problem | None]] = {
    "an image that cannot be pulled": (
        container(BACK_OFF),
        Problem("ImagePullBackOff", 'Back-off pulling image "nope:1"'),
    ),
    "a crash loop says what the worker said last": (
        container(CRASH_LOOP, NO_ENTRYPOINT),
        Problem("CrashLoopBackOff", "no module named nope", 64),
    ),
    "a container that just ended": (container(NO_ENTRYPOINT), Problem("Error", "no module named nope", 64)),
    "no node": ({"phase": "Pending", "conditions": [UNSCHEDULABLE]}, Problem("Unschedulable", "0/1 nodes")),
    "an evicted pod": (
        {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
        Problem("Evicted", "low on memory"),
    ),
    "a pod that starts has no problem": (container({"waiting": {"reason": "ContainerCreating"}}), None),
    "a pod that runs has none either": (container({"running": {}}), None),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_why_a_pod_does_not_work(case: str) -> None:
    status, want = PROBLEMS[case]

    assert pod(a_pod(status)).problem == want


BEFORE_IT = {"initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 0}}}]}
STARTED: dict[str, tuple[dict[str, Any], bool]] = {
    "its container is being created": (container({"waiting": {"reason": "ContainerCreating"}}), False),
    "what comes before its container has ended": (
        {**BEFORE_IT, **container({"waiting": {"reason": "PodInitializing"}})},
        False,
    ),
    "it runs": (container({"running": {}}), True),
    "it will run again": (container(CRASH_LOOP, NO_ENTRYPOINT), True),
    "its work is done and the pod's phase not written yet": (container({"terminated": {"exitCode": 0}}), True),
}


@pytest.mark.parametrize("case", STARTED)
def test_whether_a_pod_ever_ran(case: str) -> None:
    """What never ran may be stuck, and then its events are asked why."""
    status, want = STARTED[case]

    assert pod(a_pod(status)).started == want


AT = "2026-11-29T21:00:00Z"
UP: dict[str, tuple[dict[str, Any], float | None]] = {
    "its containers are not made yet": ({"phase": "Pending"}, None),
    "it waits to run again": (container(CRASH_LOOP, NO_ENTRYPOINT), None),
    "it runs": (container({"running": {"startedAt": AT}}), 1_795_986_000.0),
    "it was started again": (container({"running": {"startedAt": AT}}, NO_ENTRYPOINT), 1_795_986_000.0),
    "one of two was started again later": (
        {"containerStatuses": [{"state": {"running": {"startedAt": at}}} for at in ("2026-11-29T20:00:02Z", AT)]},
        1_795_986_000.0,
    ),
    "nobody says since when it runs": (container({"running": {}}), 1_795_982_400.0),
}


@pytest.mark.parametrize("case", UP)
def test_since_when_a_pod_is_up(case: str) -> None:
    status, want = UP[case]

    assert pod(a_pod(status)).up_since == want


def test_a_part_of_a_job_is_up_while_one_of_its_pods_is() -> None:
    pods = [
        runs("environment-0", Stage.ENVIRONMENT, "default", up_since=30.0),
        runs("environment-1", Stage.ENVIRONMENT, "default", up_since=20.0),
        runs("environment-2", Stage.ENVIRONMENT, "default", up_since=None),
        runs("environment-3", Stage.ENVIRONMENT, "default", up_since=10.0, ended=True),
        runs("sampler-0", Stage.SAMPLER, "whole", up_since=None),
        runs("trainer-0", Stage.TRAINER, "whole", up_since=40.0, ended=True),
    ]
    tick = a_tick(pods=pods)
    trainer = Child("Job", "calculator-trainer-whole", "u", 1, 1, "owner", "d", None, replicas=1)
    view = replace(tick.view, children={("Job", trainer.name): trainer})

    up_since = seen(view, tick.job).up_since

    assert up_since == {Stage.ENVIRONMENT: 20.0, Stage.SAMPLER: inf, Stage.TRAINER: inf}


def test_the_gpus_of_a_pod_are_what_it_was_made_with() -> None:
    """Whatever the spec says by now."""
    assert pod(a_pod({}, annotations={"steelyard.dev/gpus": "500m"})).gpus == Fraction(1, 2)
    assert pod(a_pod({}, annotations={"steelyard.dev/gpus": "a lot"})).gpus == 0


def written(*entries: tuple[str, str | None, str | None]) -> dict[str, Any]:
    fields = [
        {"manager": who, **({"time": at} if at else {}), **({"subresource": sub} if sub else {}), "fieldsV1": {}}
        for who, at, sub in entries
    ]
    return {"metadata": {**METADATA, "managedFields": fields}, "spec": {"replicas": 2}}


TOUCHES: dict[str, tuple[dict[str, Any], str | None]] = {
    "nobody else": (written(("steelyard", "2026-11-29T20:00:05Z", None)), None),
    "somebody later": (
        written(("steelyard", "2026-11-29T20:00:05Z", None), ("kubectl-edit", "2026-11-29T20:00:09Z", None)),
        "kubectl-edit",
    ),
    "somebody in the same second": (
        written(("steelyard", "2026-11-29T20:00:05Z", None), ("kubectl-edit", "2026-11-29T20:00:05Z", None)),
        "kubectl-edit",
    ),
    "somebody before us": (
        written(("kubectl-edit", "2026-11-29T20:00:01Z", None), ("steelyard", "2026-11-29T20:00:05Z", None)),
        None,
    ),
    "through /scale, which has no time": (
        written(("steelyard", "2026-11-29T20:00:05Z", None), ("kubectl-scale", None, "scale")),
        "kubectl-scale",
    ),
    "the controller's status": (
        written(("steelyard", "2026-11-29T20:00:05Z", None), ("kcm", "2026-11-29T20:09:00Z", "status")),
        None,
    ),
}


@pytest.mark.parametrize("case", TOUCHES)
def test_who_wrote_last(case: str) -> None:
    obj, want = TOUCHES[case]

    assert child("Deployment", obj).touched_by == want


def test_a_child_is_caught_up_when_its_controller_has_seen_the_newest_spec() -> None:
    obj = {"metadata": METADATA, "spec": {"replicas": 2}, "status": {"observedGeneration": 2, "replicas": 1}}

    assert not child("Deployment", obj).caught_up
    assert child("Deployment", {**obj, "status": {"observedGeneration": 3}}).caught_up


def test_a_suspended_job_asks_for_no_pods() -> None:
    assert child("Job", {"metadata": METADATA, "spec": {"parallelism": 1}}).replicas == 1
    assert child("Job", {"metadata": METADATA, "spec": {"parallelism": 1, "suspend": True}}).replicas == 0


def test_a_job_whose_spec_breaks_a_rule_is_kept_with_the_words() -> None:
    manifest = job_manifest({"stages.sampler.replicas": {"min": 3, "max": 2}})
    manifest["metadata"] |= METADATA

    found = job(manifest)

    assert found.resource is None
    assert found.broken.startswith("spec.stages.sampler.replicas")


def test_a_status_that_nobody_can_read_does_not_stop_the_job() -> None:
    manifest = job_manifest()
    manifest["metadata"] |= METADATA
    manifest["status"] = {"conditions": "what was this again?"}

    found = job(manifest)

    assert found.resource is not None
    assert found.status.conditions == ()
