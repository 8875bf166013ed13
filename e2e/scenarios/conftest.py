"""One real cluster with Prometheus and the operator for all scenarios that need one."""

from collections.abc import Iterator

import pytest

from e2e.cluster import Cluster
from e2e.cluster.progress import Progress
from e2e.images.build import TARGETS, build
from e2e.install import install_operator
from e2e.kube import Kube

SECONDS = 1800
"""Of one test, the cluster's start included: a bound for what hangs, not a promise of speed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def installed() -> Iterator[Cluster]:
    """The cluster, with the operator running."""
    progress = Progress()
    images = build(TARGETS, progress)
    with Cluster("scenarios", progress).up(prometheus=True) as cluster:
        cluster.load(*sorted(set(images.values())))
        install_operator(cluster, images)
        yield cluster


@pytest.fixture(scope="session")
def kube(installed: Cluster) -> Iterator[Kube]:
    with Kube(installed.kubeconfig) as kube:
        yield kube
