"""What the seam to Kubernetes promises about pools."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.cluster import kinds
from steelyard.cluster.errors import Unavailable
from steelyard.cluster.events import event_about
from steelyard.cluster.kubernetes import KubernetesCluster
from steelyard.cluster.pool_records import pool
from tests.builders import job_manifest, pool_manifest


class Lists:
    """A client that lists one job, which no watch has told of yet."""

    async def list_pages(self, path: str, selector: str) -> tuple[list[dict[str, Any]], str]:
        job = job_manifest({"pool": {"name": "shared", "queue": "low"}})
        job["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1}
        return [job], "7"


async def test_no_pool_is_looked_at_before_all_jobs_are_known() -> None:
    """A job that nobody has told of yet would look like one that is gone, and lose its GPUs."""
    cluster = KubernetesCluster(Lists(), ())  # type: ignore[arg-type]  # only what it calls
    manifest = pool_manifest()
    manifest["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    cluster.store.put(kinds.POOL, manifest)
    with pytest.raises(Unavailable, match="not all jobs are known"):
        cluster.pool_view("shared")

    for informer in cluster._informers:
        informer.synced.set()
    await cluster.synced()

    view = cluster.pool_view("shared")
    assert view is not None
    assert list(view.jobs) == [("default", "calculator")]


@pytest.mark.parametrize(("namespaces", "shared"), [((), True), (("team-a",), False)])
def test_pools_are_read_only_by_an_operator_of_all_namespaces(namespaces: tuple[str, ...], shared: bool) -> None:
    cluster = KubernetesCluster(Lists(), namespaces)  # type: ignore[arg-type]

    assert cluster.store.pooling is shared
    assert ("RLPool" in cluster.silence()) is shared
    if not shared:
        assert cluster.pool_view("shared") is None, "nothing to wait for"


def test_an_event_about_a_pool_is_kept_where_events_of_cluster_scoped_objects_are() -> None:
    manifest = pool_manifest()
    manifest["metadata"]["uid"] = "p"

    event = event_about(kinds.POOL, pool(manifest).metadata, "Normal", "GrantsChanged", "x" * 2000)

    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "RLPool",
        "name": "shared",
        "uid": "p",
    }
    assert len(event["message"]) == 1024
