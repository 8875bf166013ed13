"""The operator as a process of its own, with the rights that `manifests/` gives it and no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from tests.integration.kubelet import Kubelet
from tests.integration.operator.operating import NAMESPACE, Operated, Operator
from tests.integration.operator.sharing import create
from tests.integration.processes import Prometheus
from tests.integration.server import Server

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def credentials(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the operator's service account; its Deployment is installed without replicas."""
    return credentials_of(cluster, ROOT / "manifests/overlays/cluster", NAMESPACE, tmp_path_factory.mktemp("operator"))


def credentials_of(cluster: Cluster, overlay: Path, namespace: str, folder: Path) -> Path:
    """Install an overlay whose operator lives in a namespace; what its service account may do, as a kubeconfig."""
    manifests = cluster.kubectl("kustomize", overlay)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=manifests)
    cluster.kubectl("scale", "deployment/steelyard-operator", "--replicas=0", f"--namespace={namespace}")
    token = cluster.kubectl("create", "token", "steelyard-operator", f"--namespace={namespace}", "--duration=4h")
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--output=json"))
    config["users"] = [{"name": user["name"], "user": {"token": token.strip()}} for user in config["users"]]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def shared_operator(credentials: Path, prometheus: Prometheus) -> Iterator[Operator]:
    operator = Operator(sys.executable, credentials, prometheus.url, credentials.parent)
    yield operator
    operator.stop()


@pytest.fixture
def operator(shared_operator: Operator) -> Operator:
    """The one operator of the module, running; a test that kills it need not start it again."""
    if not shared_operator.running:
        shared_operator.start()
    return shared_operator


@pytest.fixture
def operated(server: Server, kubelet: Kubelet, operator: Operator, namespace: str) -> Iterator[Operated]:
    """A namespace in which jobs are under control. Only pods of the restricted standard may run in it."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    server.request("PATCH", f"/api/v1/namespaces/{namespace}", label)
    operated = Operated(server, kubelet, operator, namespace)
    yield operated
    operated.clear()


@pytest.fixture
def pool(server: Server, operated: Operated) -> Iterator[str]:
    """A pool of six GPUs for this namespace: `high` goes before `low`."""
    name = f"shared-{operated.namespace}"
    create(server, name, operated.namespace)
    yield name
    operated.clear()
    server.delete("RLPool", None, name)
