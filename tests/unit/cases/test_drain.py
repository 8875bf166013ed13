"""Work in flight: the replica with least to lose goes, it finishes or hands back what it has, and has time for it."""

from __future__ import annotations

import pytest

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.types import Rates, Series
from steelyard.status.victims import deletion_costs
from tests.builders import a_job
from tests.unit.operator.test_children import pod_of, rendered, worker_of
from tests.unit.operator.ticks import NOW, a_pod, a_tick, working


def test_busy_replicas_go_last_and_unready_ones_never_after_them() -> None:
    """ray-project/kuberay#1238, ray-project/kuberay#1192, ray-project/ray#34019, ray-project/ray#35560.

    A ReplicaSet takes unscheduled, pending and unready pods before it looks at this cost.
    """
    inflight = {f"sampler-{n}": (Series((), ((NOW - 1, float(busy)),)),) for n, busy in enumerate((12, 0, 3, 7))}
    pods = [*working(), a_pod("waiting", Stage.SAMPLER, ready=False, bound=False)]
    costs = deletion_costs(a_tick(pods=pods).view, Rates(60.0, {signals.STAGE_INFLIGHT: inflight}))
    order = sorted((name for name in costs if "sampler" in name or name == "waiting"), key=lambda name: costs[name])
    assert order[2:] == ["sampler-2", "sampler-3", "sampler-0"]
    assert set(order[:2]) == {"sampler-1", "waiting"}


@pytest.mark.parametrize("drain", [30, 300, 3600])
def test_every_worker_drains_before_it_is_stopped_and_has_the_time(drain: int) -> None:
    """ai-dynamo/dynamo#13559, volcano-sh/kthena#1589, kserve/kserve#5485, kserve/kserve#5496: 30 s cut requests off.

    kubernetes-sigs/gateway-api-inference-extension#549: the preStop hook was missing from what users copied.
    """
    stages = ("sampler", "environment", "rewardServer")
    made = rendered(a_job({f"stages.{stage}.drainSeconds": drain for stage in stages}))
    drained = [child for (kind, name), child in made.items() if kind == "Deployment"]
    assert len(drained) == 5
    for child in drained:
        hook = worker_of(child)["lifecycle"]["preStop"]
        assert hook["exec"]["command"] == ["python", "-m", "steelyard_workers.drain"]
        assert pod_of(child)["spec"]["terminationGracePeriodSeconds"] == drain + 30
