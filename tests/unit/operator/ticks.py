"""Ticks of a job that works, but for what a test names."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from steelyard.api import AgenticRLJob, AllocationRevision, JobStatus, Stage
from steelyard.balance.types import Action, Decision, Fact, Plan, Rates
from steelyard.cluster.problems import Problem
from steelyard.cluster.records import Child, Job, Pod
from steelyard.cluster.view import View
from steelyard.status import Tick
from tests.builders import START, a_job, a_revision

NOW = 1_800_000_000.0
HOLD = Decision(Action.HOLD, "DeadBand", "no change because nothing gains 5 %")


def a_pod(name: str, stage: Stage, profile: str = "whole", **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "gpus": Fraction(0 if stage is Stage.ENVIRONMENT else 1),
        "bound": True,
        "ready": True,
        "terminating": False,
        "ended": False,
        "created": NOW - 100,
    }
    return Pod(name, f"uid-{name}", 1, stage.value, profile, **{**defaults, **fields})


def working(without: str = "") -> list[Pod]:
    """A pod for every replica of START."""
    return [
        a_pod(name, stage, profile)
        for stage, profiles in START.items()
        for profile, n in profiles.items()
        for i in range(n)
        if (name := f"{stage}-{i}") != without
    ]


def bus(ready: int = 1) -> Child:
    return Child("StatefulSet", "calculator-bus", "u", 1, 1, "owner", "d", None, replicas=1, created=1, ready=ready)


def a_tick(
    *,
    pods: list[Pod] | None = None,
    changes: Mapping[str, Any] | None = None,
    before: JobStatus | None = None,
    revision: AllocationRevision | None = None,
    bus_ready: int = 1,
    autoscaled: frozenset[str] = frozenset(),
    plan: Mapping[str, Any] | None = None,
    **more: Any,
) -> Tick:
    """One tick of a job that works, but for what the test names."""
    job: AgenticRLJob = a_job(changes, generation=3)
    record = Job(("default", "calculator"), job.metadata, before or JobStatus(), job)
    children = {(child.kind, child.name): child for child in [bus(bus_ready)]}
    active = revision or a_revision()
    view = View(record, (active,), children, tuple(working() if pods is None else pods), autoscaled, False)
    metrics, balanced = Fact(True, "Complete", "all"), Fact(True, "DeadBand", "it is")
    defaults: dict[str, Any] = {"decision": HOLD, "active": active, "metrics": metrics, "balanced": balanced}
    return Tick(view, job, Plan(**{**defaults, **(plan or {})}), Rates(), NOW, **more)


NO_IMAGE = Problem("ImagePullBackOff", 'Back-off pulling image "nope:1"')


def broken(problem: Problem | None, stage: Stage = Stage.ENVIRONMENT, **fields: Any) -> list[Pod]:
    name = f"{stage}-0"
    return [
        *working(without=name),
        a_pod(name, stage, next(iter(START[stage])), ready=False, problem=problem, **fields),
    ]
