"""Metrics that are lost, broken or of pods that are gone: nothing moves on them, and nothing falls to its minimum."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import pytest

from steelyard.api import AllocationRevision, RevisionPhase, Stage, Verdict
from steelyard.balance import balance, signals
from steelyard.balance.types import Action, MetricsProblem, MetricsUnavailable, Rates, Series
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, Sheet, a_view, steady
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.replicas import Setup
from tests.unit.balance.test_balance import SLOW_TOOLS, judged, tick

AWAY = Rates(unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, "Prometheus did not answer: ConnectError"))


def changed(change: Callable[[float, float], tuple[float, float]]) -> Sheet:
    """A pipeline whose every sample (instant, value) went through `change`."""
    sheet = steady(**SLOW_TOOLS)
    for pods in sheet.samples.values():
        for pod, found in pods.items():
            pods[pod] = [Series(one.labels, tuple(change(*sample) for sample in one.samples)) for one in found]
    return sheet


LOST: dict[str, Sheet] = {
    "an empty answer": Sheet(),
    "a target that is not scraped any more": changed(lambda at, value: (at - 100, value)),
    "NaN everywhere": changed(lambda at, _: (at, nan)),
    "one stage gone": steady(**SLOW_TOOLS).without(signals.STAGE_SECONDS, "reward-server-whole-0"),
    "one replica gone": steady(**SLOW_TOOLS).without(signals.STAGE_SECONDS, "sampler-whole-0"),
}


@pytest.mark.parametrize("objective", ["Throughput", "Efficiency"])
@pytest.mark.parametrize("case", LOST)
def test_what_is_lost_is_unknown_and_never_zero(case: str, objective: str) -> None:
    """kedacore/keda#3064, kedacore/keda#965: an empty result was read as 0 and the target fell to its minimum.

    kubernetes/kubernetes#105187: scaled down with a broken metric. kedacore/keda#6659: a fallback overrode a healthy
    signal that asked for more; here no fallback number exists, the allocation that was in force is.
    """
    plan = tick({"scaling.objective": objective}, sheet=LOST[case])
    assert plan.revision is None
    assert plan.active is not None
    assert plan.active.spec.allocation.after == START
    assert plan.metrics.status is False
    assert plan.decision.kind in {"MetricsIncomplete", "NoEvidence"}


def test_a_failing_source_is_one_stable_state_over_twenty_ticks() -> None:
    """kedacore/keda#4249: replicas oscillated between minimum and fallback while a query failed now and then."""
    kinds = set()
    for turn in range(20):
        plan = balance(a_view(revisions=(judged(),)), AWAY if turn % 2 else Rates(60), NOW + turn)
        assert plan.revision is None
        assert plan.metrics.status is False
        kinds.add(plan.decision.kind)
    assert kinds == {"MetricsUnavailable", "MetricsIncomplete"}


def test_a_floor_holds_from_zero_and_without_metrics() -> None:
    """kedacore/keda#7239: a fallback did not lift a target from 0."""
    nothing = a_revision(1, START.replace(Stage.SAMPLER, {}), phase=RevisionPhase.JUDGED)
    plan = balance(a_view(revisions=(nothing,)), AWAY, NOW)
    assert plan.decision.action is Action.MOVE
    assert plan.revision is not None
    assert plan.revision.spec.allocation.after.replicas(Stage.SAMPLER) == 1


def test_resuming_needs_no_metrics() -> None:
    """kedacore/keda#5009: a resumed target stayed down until Prometheus was back."""
    ledger = (judged(2, START.replace(Stage.SAMPLER, {"whole": 1}), before=START),)
    for suspended in (True, False):
        plan = balance(a_view(demo_job({"suspend": suspended}), ledger), AWAY, NOW)
        assert plan.active is not None
        assert plan.active.spec.allocation.after == ledger[0].spec.allocation.after
        assert plan.decision.kind == ("Suspended" if suspended else "MetricsUnavailable")


def test_series_of_pods_that_are_gone_change_nothing() -> None:
    """llm-d/llm-d-autoscaling#368, llm-d/llm-d-autoscaling#385: deleted pods' series in the window made it loop."""
    haunted = steady(**SLOW_TOOLS)
    for metric, pods in list(haunted.samples.items()):
        for pod in [name for name in pods if name.startswith(("sampler", "environment"))]:
            haunted.samples[metric][f"{pod}-deleted"] = pods[pod]
    assert tick(sheet=haunted) == tick()


def test_a_move_is_not_judged_while_a_replica_is_not_scraped() -> None:
    """argoproj/argo-rollouts#1466, argoproj/argo-rollouts#1905: an empty result must pause the analysis."""
    loop = Loop(demo_job(), Setup(scrape_seconds=2.0))
    while len(loop.revisions) < 2 or loop.active.status.measuring_time is None:
        loop.run(5)
    lost = next(pod for pod in loop.pipeline.pods if pod.stage is Stage.ENVIRONMENT)
    lost.ready_at, scrape = loop.pipeline.now, loop.pipeline._scrape

    def without_it() -> None:
        scrape()
        for samples in lost.scraped.values():
            samples.clear()

    loop.pipeline._scrape = without_it  # type: ignore[method-assign]
    loop.run(40)
    assert loop.revisions[1].status.verdict is None
    assert (
        "no verdict on missing data: environment has no fresh metrics from 1 of 2 pods" in loop.decisions[-1][1].reason
    )
    loop.pipeline._scrape = scrape  # type: ignore[method-assign]
    loop.run(100)
    assert loop.revisions[1].status.verdict is Verdict.KEPT


def test_an_unreachable_source_takes_nothing_back() -> None:
    """argoproj/argo-rollouts#3873: inconclusive is no verdict for either side."""
    open_: AllocationRevision = a_revision(
        2, START, phase=RevisionPhase.SETTLING, before=START.replace(Stage.SAMPLER, {"whole": 1})
    )
    plan = balance(a_view(revisions=(judged(), open_)), AWAY, NOW + 1e6)
    assert plan.revision is None
    assert plan.updates.get("calculator-2") is None
