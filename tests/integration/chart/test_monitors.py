"""The whole chart on a cluster with the resources of the Prometheus Operator: each object is valid there."""

import dataclasses
from collections.abc import Iterator

import pytest

from e2e import prometheus_operator
from e2e.cluster.cluster import Cluster
from e2e.cluster.shell import Failed
from e2e.helm import Helm
from e2e.kube import Object
from steelyard.children.monitor import pod_monitor
from tests.builders import a_job
from tests.integration.chart.rendered import EVERYTHING, INSTALL, MONITORS, NARROW, listed


@pytest.fixture(scope="module")
def monitored(rooms: Cluster) -> Iterator[Cluster]:
    """The cluster with the resources of the Prometheus Operator."""
    with prometheus_operator.installed(rooms):
        yield rooms


DRY = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-")


@pytest.mark.parametrize("values", [EVERYTHING, NARROW], ids=["all namespaces", "two namespaces"])
def test_every_object_is_valid(monitored: Cluster, newest: Helm, values: Object) -> None:
    objects = newest.objects(values)
    assert {obj["kind"] for obj in objects} >= MONITORS

    said = monitored.kubectl(*DRY, stdin=listed(objects)).splitlines()

    assert len(said) == len(objects)


def test_the_monitor_that_the_operator_makes_for_a_job_is_valid(monitored: Cluster) -> None:
    assert "calculator" in monitored.kubectl(*DRY, stdin=listed([pod_monitor(a_job())]))


def test_a_field_that_the_prometheus_operator_does_not_know_is_refused_here(monitored: Cluster) -> None:
    """Otherwise the tests above show nothing."""
    wrong = pod_monitor(a_job())
    wrong["spec"]["podMetricsEndpoints"][0]["scrapeEvery"] = "5s"

    with pytest.raises(Failed, match="scrapeEvery"):
        monitored.kubectl(*DRY, stdin=listed([wrong]))


def test_helm_makes_monitors_where_the_cluster_has_them(monitored: Cluster, newest: Helm) -> None:
    here = dataclasses.replace(newest, kubeconfig=monitored.kubeconfig)

    said = here(*INSTALL, values={**EVERYTHING, "crds": {"install": False}})

    assert {kind for kind in MONITORS if f"kind: {kind}" in said} == MONITORS
    assert "WARNING" not in said
