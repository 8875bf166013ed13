"""Helm 3 and Helm 4, built once. What is rendered needs no cluster."""

from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.helm import Helm, helm
from tests.integration.chart.rendered import listed

NAMESPACES = ("steelyard-system", "team-a", "team-b")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Helm]:
    """By major version."""
    return {major: helm(major, tmp_path_factory.mktemp(f"helm{major}")) for major in (3, 4)}


@pytest.fixture(params=[3, 4], ids=["Helm 3", "Helm 4"])
def either(programs: dict[int, Helm], request: pytest.FixtureRequest) -> Helm:
    """Each of the two."""
    return programs[request.param]


@pytest.fixture(scope="session")
def newest(programs: dict[int, Helm]) -> Helm:
    """Helm 4, where the two need not be told apart: `test_render` shows that they make the same."""
    return programs[4]


@pytest.fixture(scope="session")
def rooms(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the namespaces that the values name, all restricted."""
    made = [{"metadata": {"name": name}, "apiVersion": "v1", "kind": "Namespace"} for name in NAMESPACES]
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=listed(made))
    cluster.kubectl("label", "--overwrite", "namespace", *NAMESPACES, "pod-security.kubernetes.io/enforce=restricted")
    yield cluster
    cluster.kubectl("delete", "namespace", *NAMESPACES[1:], "--wait=false")
