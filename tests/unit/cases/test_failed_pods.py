"""Pods that fail again and again: capped, told, tried again later, and nothing piles up."""

from __future__ import annotations

import pytest

from steelyard.api import Stage
from steelyard.cluster.view import FAILED_KEPT, FAILED_REST_SECONDS
from steelyard.status import status
from tests.unit.operator.operating import Operated
from tests.unit.operator.ticks import a_pod, a_tick, working

ADMISSION = {
    "a kubelet that restarted": "UnexpectedAdmissionError",
    "a share that was taken meanwhile": "OutOfnvidia.com/gpu.shared",
    "a node under pressure": "Evicted",
}


async def fail(operated: Operated, reason: str) -> None:
    """Every sampler that runs fails, as a kubelet writes it."""
    for pod in operated.cluster.pods("sampler"):
        if pod["status"]["phase"] == "Running":
            operated.cluster._put({**pod, "status": {"phase": "Failed", "reason": reason, "message": "no devices"}})


@pytest.mark.parametrize("case", ADMISSION)
async def test_pods_that_fail_again_and_again_are_capped_told_and_tried_again_later(
    operated: Operated, case: str
) -> None:
    """NVIDIA/k8s-device-plugin#231: one lost GPU left up to 12,000 failed pods.

    kubernetes/kubernetes#130145, kubernetes/kubernetes#118559, kubernetes/kubernetes#133382,
    kubernetes/kubernetes#117955: UnexpectedAdmissionError after kubelet or plug-in restarts. Project-HAMi/HAMi#596,
    Project-HAMi/HAMi-core#110, Project-HAMi/HAMi#2214, Project-HAMi/volcano-vgpu-device-plugin#93: fractional pods
    rejected after they were bound.
    """
    for _ in range(12):
        await fail(operated, ADMISSION[case])
        await operated.run(1)
    failed = [pod for pod in operated.cluster.pods("sampler") if pod["status"]["phase"] == "Failed"]
    assert len(failed) <= FAILED_KEPT
    assert operated.cluster.replicas()["calculator-sampler-whole"] == 0
    assert operated.condition("Degraded")[:2] == ("True", ADMISSION[case])

    await operated.run(6, seconds=FAILED_REST_SECONDS / 3)
    assert operated.cluster.replicas()["calculator-sampler-whole"] == 2
    assert operated.condition("Degraded")[0] == "False"


async def test_after_a_rejection_replicas_start_one_after_the_other(operated: Operated) -> None:
    """Project-HAMi/HAMi#2214, Project-HAMi/volcano-vgpu-device-plugin#93: starts at once on a node got each other's."""
    await fail(operated, "UnexpectedAdmissionError")
    for replicas in (1, 2):
        await operated.tick()
        assert operated.cluster.replicas()["calculator-sampler-whole"] == replicas
        operated.cluster.settle()
    assert [pod["status"]["phase"] for pod in operated.cluster.pods("sampler")].count("Running") == 2


async def test_one_eviction_is_just_replaced(operated: Operated) -> None:
    victim = operated.cluster.pods("sampler")[0]
    operated.cluster._put({**victim, "status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}})
    await operated.run(3)
    assert operated.cluster.replicas()["calculator-sampler-whole"] == 2
    assert operated.condition("Ready")[0] == "True"


def test_failed_pods_that_are_kept_hold_no_gpus_and_count_for_nobody() -> None:
    """NVIDIA/k8s-device-plugin#231."""
    dead = [a_pod(f"dead-{n}", Stage.SAMPLER, ready=False, ended=True) for n in range(3)]
    assert status(a_tick(pods=[*working(), *dead])).gpus == status(a_tick()).gpus
