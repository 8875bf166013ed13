"""A namespace's ResourceQuota, read from a real API server with the rights that the operator has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steelyard.api import AgenticRLJob
from steelyard.cluster import kinds
from steelyard.cluster.client import connect
from steelyard.cluster.kubernetes import KubernetesCluster
from steelyard.cluster.view import seen
from tests.integration.operator.operating import Operated

pytestmark = pytest.mark.timeout(240, func_only=True)
QUOTA = {"requests.nvidia.com/gpu": "7", "pods": "50"}


async def test_a_job_is_told_what_the_quota_leaves_it_beside_what_it_has(operated: Operated, credentials: Path) -> None:
    quotas = f"/api/v1/namespaces/{operated.namespace}/resourcequotas"
    operated.server.request("POST", quotas, {"metadata": {"name": "team"}, "spec": {"hard": QUOTA}})
    await asyncio.to_thread(operated.start)
    await asyncio.to_thread(operated.until, "the pods are counted", lambda: used(operated, quotas) == "4")

    quota = await told(operated, credentials)

    assert quota == {"nvidia.com/gpu": 7}


def used(operated: Operated, quotas: str) -> str:
    counted: dict[str, str] = operated.server.request("GET", f"{quotas}/team").get("status", {}).get("used", {})
    return counted.get("requests.nvidia.com/gpu", "")


async def told(operated: Operated, credentials: Path) -> dict[str, int]:
    """What the balance would be told now."""
    client = await connect(credentials, lambda *_: None)
    cluster = KubernetesCluster(client, [operated.namespace])
    following = asyncio.create_task(cluster.run())
    try:
        await cluster.synced()
        cluster.store.put(kinds.JOB, operated.job())
        view = cluster.view((operated.namespace, "calculator"))
        assert view is not None
        return {name: int(n) for name, n in seen(view, AgenticRLJob.from_cluster(operated.job())).quota.items()}
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
