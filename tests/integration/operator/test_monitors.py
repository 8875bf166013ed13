"""The resources of the Prometheus Operator come and go while the operator and its jobs run."""

from __future__ import annotations

import pytest

from e2e import prometheus_operator
from e2e.cluster.cluster import Cluster
from e2e.kube import Object
from steelyard.cluster.informer import ABSENT_RETRY_SECONDS
from steelyard.cluster.kinds import POD_MONITOR
from tests.integration.operator.operating import SOON, Operated
from tests.integration.server import GONE

pytestmark = pytest.mark.timeout(400, func_only=True)


def monitor(operated: Operated) -> Object:
    return operated.server.request("GET", POD_MONITOR.path(operated.namespace, "calculator"), fine=(GONE,))


def test_a_job_brings_a_pod_monitor_as_soon_as_the_cluster_knows_them(operated: Operated, cluster: Cluster) -> None:
    operated.start()

    with prometheus_operator.installed(cluster):
        made = operated.until("the monitor is made", lambda: monitor(operated), ABSENT_RETRY_SECONDS + SOON)
        assert made["spec"]["selector"]["matchLabels"] == {"steelyard.dev/job": "calculator"}
        assert made["metadata"]["ownerReferences"][0]["uid"] == operated.job()["metadata"]["uid"]

        operated.server.request("DELETE", POD_MONITOR.path(operated.namespace, "calculator"))
        operated.until("it is made again", lambda: monitor(operated))

    operated.server.delete("Deployment", operated.namespace, "calculator-environment")
    operated.until("jobs go on without", lambda: ("Deployment", "calculator-environment") in operated.objects())
    operated.until("the job is ready", lambda: operated.has("Ready"))
