"""What the seam to Kubernetes has read before the operator acts, and what it says is missing."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.cluster import kinds
from steelyard.cluster.kubernetes import KubernetesCluster
from tests.builders import job_manifest


class Lists:
    """A client that lists one job in each namespace it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def list_pages(self, path: str, selector: str) -> tuple[list[dict[str, Any]], str]:
        self.asked.append(path)
        namespace = path.split("/")[5] if "/namespaces/" in path else "default"
        job = job_manifest(namespace=namespace)
        job["metadata"] |= {"uid": namespace, "resourceVersion": "7", "generation": 1}
        return [job], "7"


@pytest.mark.parametrize(("namespaces", "read"), [((), ["default"]), (("team-a", "team-b"), ["team-a", "team-b"])])
async def test_jobs_are_read_where_they_are_served_before_kopf_looks_for_them(
    namespaces: tuple[str, ...], read: list[str]
) -> None:
    """kopf scans once when it may not watch CRDs: a job's kind that is not served yet would never be followed."""
    client = Lists()
    cluster = KubernetesCluster(client, namespaces)  # type: ignore[arg-type]  # only what it calls
    assert "AgenticRLJob" in cluster.unread()
    assert "Deployment" in cluster.unread()

    for informer in cluster._informers:
        informer.synced.set()
    await cluster.synced()

    assert cluster.unread() == []
    assert sorted(namespace for namespace, _ in cluster.store.jobs) == read
    assert [("/namespaces/" in path) for path in client.asked] == [bool(namespaces)] * len(read)


@pytest.mark.parametrize("wanted", [True, False], ids=["each job its own", "another one selects all pods"])
def test_a_job_brings_a_pod_monitor_only_when_nothing_else_scrapes_its_pods(wanted: bool) -> None:
    cluster = KubernetesCluster(Lists(), (), pod_monitors=wanted)  # type: ignore[arg-type]
    for informer in cluster._informers:
        informer.present = True
    job = job_manifest()
    job["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1}
    cluster.store.put(kinds.JOB, job)

    view = cluster.view(("default", "calculator"))

    assert view is not None
    assert view.monitored is wanted
