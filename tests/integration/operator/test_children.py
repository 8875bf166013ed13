"""What others do to objects of a job, or do by the names it needs, on a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster
from e2e.kube import Object
from steelyard.cluster.client import connect
from steelyard.cluster.errors import Unavailable
from steelyard.cluster.kinds import BY_NAME
from tests.integration.operator.operating import Operated

pytestmark = pytest.mark.timeout(240, func_only=True)

ENVIRONMENT = "calculator-environment"


def path(operated: Operated, kind: str, name: str) -> str:
    return BY_NAME[kind].path(operated.namespace, name)


def patches(operated: Operated) -> float:
    return operated.operator.metric('steelyard_operator_api_requests_total{outcome="200",verb="PATCH"}')


def test_a_child_that_lost_its_label_has_it_again_and_is_left_in_peace(operated: Operated) -> None:
    """A watch of labelled objects says DELETED when only the label went, and the object comes back as it was."""
    operated.start()
    where = path(operated, "Deployment", ENVIRONMENT)

    operated.server.request("PATCH", where, {"metadata": {"labels": {"steelyard.dev/job": None}}})
    operated.until("the label is back", lambda: ("Deployment", ENVIRONMENT) in operated.objects())

    operated.pass_rounds(2)
    before = patches(operated)
    operated.pass_rounds(5)
    assert patches(operated) - before < 5, "it is not written in every round"
    assert operated.has("Ready")


def test_an_object_of_a_name_that_the_job_needs_stays_its_owners(operated: Operated) -> None:
    """Applying would have made it the job's, and deleted it with the job."""
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "calculator-config"}, "data": {"mine": "1"}}
    operated.server.apply([mine], operated.namespace)

    operated.create()
    operated.until("the job says so", lambda: operated.has("Stalled"))

    assert operated.condition("Stalled")["reason"] == "ApplyRefused"
    assert "ConfigMap calculator-config exists and is not this job's" in operated.condition("Stalled")["message"]
    assert _of(operated)["data"] == {"mine": "1"}
    assert "ownerReferences" not in _of(operated)["metadata"]

    operated.server.delete("ConfigMap", operated.namespace, "calculator-config")
    operated.until("the job is ready", lambda: operated.has("Ready"))
    assert set(_of(operated)["data"]) == {"job.json", "nats.conf"}


def _of(operated: Operated) -> Object:
    found = operated.server.get("ConfigMap", operated.namespace, "calculator-config")
    assert found is not None
    return found


def test_a_namespace_that_is_being_deleted_is_no_reason_to_call_a_person(cluster: Cluster, operated: Operated) -> None:
    """The API server refuses whatever is new in it, as it refuses what only a person can allow."""
    namespace = f"{operated.namespace}-going"
    kept: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "finalizers": ["x.io/keep"]}}
    operated.server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    operated.server.apply([kept], namespace)
    operated.server.request("DELETE", f"/api/v1/namespaces/{namespace}")

    try:
        with pytest.raises(Unavailable, match="because it is being terminated"):
            asyncio.run(_create(cluster, {"apiVersion": "v1", "metadata": {"name": "new", "namespace": namespace}}))
    finally:
        where = f"/api/v1/namespaces/{namespace}/configmaps/kept"
        operated.server.request("PATCH", where, {"metadata": {"finalizers": None}})


async def _create(cluster: Cluster, body: dict[str, Any]) -> None:
    client = await connect(cluster.kubeconfig, lambda *_: None)
    try:
        await client.create(BY_NAME["ConfigMap"], body)
    finally:
        await client.close()
