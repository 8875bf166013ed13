"""The rights that the manifests give are enough: nothing that the operator asks for is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster.cluster import Cluster
from tests.integration.kubelet import Kubelet
from tests.integration.operator.conftest import ROOT, credentials_of
from tests.integration.operator.operating import Operated, Operator
from tests.integration.processes import Prometheus
from tests.integration.server import Server

pytestmark = pytest.mark.timeout(180, func_only=True)


@pytest.fixture
def of_one_namespace(
    cluster: Cluster, server: Server, kubelet: Kubelet, prometheus: Prometheus, namespace: str, tmp_path: Path
) -> Iterator[Operated]:
    """An operator with a Role in the namespace it lives in and serves, and nothing else."""
    below = os.path.relpath(ROOT / "manifests/overlays/namespaced", tmp_path.resolve())
    overlay = {"kind": "Kustomization", "namespace": namespace, "resources": [below]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    kubeconfig = credentials_of(cluster, tmp_path, namespace, tmp_path)
    operator = Operator(
        sys.executable,
        kubeconfig,
        prometheus.url,
        tmp_path,
        namespaces=namespace,
        lease_namespace=namespace,
    )
    with operator:
        operated = Operated(server, kubelet, operator, namespace)
        yield operated
        operated.clear()


def test_a_role_is_enough_for_one_namespace(of_one_namespace: Operated) -> None:
    """kopf would list namespaces and watch CRDs, which a Role cannot allow."""
    everything(of_one_namespace)


def test_the_cluster_role_is_enough_for_all_namespaces(operated: Operated) -> None:
    everything(operated)


def everything(operated: Operated) -> None:
    """A job starts, moves, is suspended and resumed."""
    operated.start()
    operated.change({"scaling": {"fixed": {"environment": {"default": 2}}}})
    operated.until("two environments", lambda: operated.replicas().get("calculator-environment") == 2)
    operated.change({"suspend": True})
    operated.until("no pods", lambda: not operated.pods())
    operated.change({"suspend": False})
    operated.until("the job is ready again", lambda: operated.has("Ready"))

    assert operated.operator.refused() == []
