"""Others who write: autoscalers, people with kubectl, GitOps. Who owns what is clear, and nobody fights."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api import Origin, RevisionPhase, Stage
from steelyard.balance import balance
from steelyard.balance.readiness import lacking
from steelyard.balance.types import StageCounts
from steelyard.cluster.records import autoscaled_deployment
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, a_view, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_balance import SLOW_TOOLS, judged
from tests.unit.balance.test_verdict import AFTER, a_move
from tests.unit.operator.operating import Operated, written

KEDAS: dict[str, Any] = {
    "metadata": {"name": "keda-hpa-environment", "labels": {"scaledobject.keda.sh/name": "environment"}},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "calculator-environment"}},
}
"""What KEDA makes of a ScaledObject."""


def test_a_scaled_object_is_seen_by_its_autoscaler() -> None:
    """kedacore/keda#3087, kedacore/keda#3083, kedacore/keda#3755: two controllers scaled one target."""
    assert autoscaled_deployment(KEDAS) == "calculator-environment"


@pytest.mark.parametrize("stage", list(Stage))
def test_a_stage_that_somebody_else_scales_is_left_alone_and_the_others_go_on(stage: Stage) -> None:
    """kedacore/keda#3083, kedacore/keda#3755."""
    held = {stage: f"a HorizontalPodAutoscaler owns the replicas of Deployment calculator-{stage}"}
    plan = balance(a_view(demo_job(), (judged(),), held=held), steady(**SLOW_TOOLS).rates(), NOW)
    after = plan.active.spec.allocation.after if plan.active else START
    assert dict(after[stage]) == dict(START[stage])
    assert (plan.revision is None) == (stage is Stage.ENVIRONMENT)


def test_a_move_is_not_there_while_a_child_says_otherwise() -> None:
    """ai-dynamo/dynamo#4420: a child edited by hand while the planner believed that it was at its target."""
    revision = a_move(RevisionPhase.APPLYING)
    seen = a_view(allocation=AFTER, revisions=(revision,))
    assert lacking(revision, seen) == []
    edited = StageCounts(desired=7, ready=2, pending=5, draining=0)
    seen = type(seen)(seen.job, seen.revisions, {**seen.stages, Stage.ENVIRONMENT: {"default": edited}})
    assert [one.words for one in lacking(revision, seen)] == ["environment 2 of 2 ready"]


async def test_the_users_object_is_the_same_after_many_rescales(operated: Operated) -> None:
    """ray-project/kuberay#1120, ray-project/kuberay#4149, ray-project/ray#58340: GitOps and autoscaler fought."""
    before = operated.cluster.get("AgenticRLJob", "calculator")
    start = operated.cluster.get("AllocationRevision", "calculator-1")["spec"]["allocation"]["after"]
    for number in range(2, 12):
        after = a_revision().spec.allocation.after.model_validate({**start, "sampler": {"whole": 1 + number % 2}})
        operated.cluster.create(a_revision(number, after, origin=Origin.USER, reason="again").to_dict())
        await operated.run(3)
        assert operated.cluster.replicas()["calculator-sampler-whole"] == 1 + number % 2
    job = operated.cluster.get("AgenticRLJob", "calculator")
    assert job["spec"] == before["spec"]
    assert job["metadata"]["generation"] == before["metadata"]["generation"]
    assert job["metadata"].get("annotations") == before["metadata"].get("annotations")


async def test_a_job_at_rest_writes_nothing_and_tells_nothing(operated: Operated) -> None:
    """kubernetes-sigs/kueue#13830: create and delete in turn, thousands of events."""
    operated.cluster.writes.clear()
    operated.cluster.events.clear()
    await operated.run(20, seconds=15.0)
    assert written(operated) == []
    assert operated.cluster.events == []
