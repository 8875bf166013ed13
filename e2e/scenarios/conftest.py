"""One real cluster with Prometheus and the operator for all scenarios that need one."""

from collections.abc import Iterator

import pytest

from e2e.cluster import Cluster
from e2e.cluster.progress import Progress
from e2e.helm import Helm, helm
from e2e.images.build import TARGETS, build
from e2e.install import NAMESPACE, load_release
from e2e.kube import Kube
from e2e.readme import README, Terminal, commands

SECONDS = 1800
"""Of one test, the cluster's start included: a bound for what hangs, not a promise of speed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster; the namespaces of the operator and of the jobs take restricted pods only."""
    progress = Progress()
    images = build(TARGETS, progress)
    with Cluster("scenarios", progress).up(prometheus=True) as cluster:
        load_release(cluster, images)
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", "default", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield cluster


@pytest.fixture(scope="session")
def helms(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Helm]:
    """Helm 3 and Helm 4, by major version."""
    return {n: helm(n, tmp_path_factory.mktemp(f"helm{n}"), cluster.kubeconfig) for n in (3, 4)}


@pytest.fixture(scope="session")
def terminal(cluster: Cluster, helms: dict[int, Helm], tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A newcomer's shell."""
    return Terminal(helms[4], cluster.kubeconfig, tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="session")
def installed(cluster: Cluster, terminal: Terminal) -> Cluster:
    """The cluster, with the operator installed as the first of the newcomer's commands says."""
    install, *_ = commands(*README)
    assert install.startswith("helm install")
    terminal.run(install)
    return cluster


@pytest.fixture(scope="session")
def kube(installed: Cluster) -> Iterator[Kube]:
    with Kube(installed.kubeconfig) as kube:
        yield kube
