"""A real API server, scheduler and controller manager for the whole session; a namespace for each test.

`kubelet` makes pods run without containers, `workers` makes up what they measure, `prometheus` is real. None of them
is there unless a test asks for it.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from e2e.cluster import cache
from e2e.cluster.cluster import Cluster
from tests.integration.kubelet import Kubelet
from tests.integration.processes import Prometheus
from tests.integration.server import Server
from tests.integration.workers import Workers

ROOT = Path(__file__).parents[2]

TEST_SECONDS = 60

_numbers = count(1)


LONGEST_FIRST = ("operator", "trainer", "cluster")
"""What tests share that is costly: one of two clusters, or the import of torch. The rest goes by file."""
ON_SERVER = (
    "/cli/",
    "/test_harness.py",
    "/test_rules_agree.py",
    "/test_schema.py",
    "/chart/test_server.py",
    "/chart/test_monitors.py",
)


def in_common(nodeid: str) -> str:
    file = nodeid.split("::")[0]
    if "/operator/" in file:
        return "operator"
    if any(room in file for room in ON_SERVER):
        return "cluster"
    return "trainer" if "/test_trainer" in file else file


class Shared(LoadScopeScheduling):  # type: ignore[misc]  # the package has no types
    """Gives each process, as it becomes free, the next tests that have something in common."""

    def _split_scope(self, nodeid: str) -> str:
        return in_common(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Asked once, when processes share the work (`-n`)."""
    config.option.loadscopereorder = False  # it would put first what is most in number
    return Shared(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test's time is its own: the first one also waits for programs that may have to be built."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS, func_only=True))
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(in_common(item.nodeid), len(ranks)))


@contextmanager
def _own_name() -> Iterator[str]:
    """A name that no other test run on this machine has now. That of a killed run is taken, its cluster replaced."""
    for number in count():
        with (cache.directory() / f"integration-{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield f"integration-{number}"
            return


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Kubernetes without a node, the CRDs installed."""
    with _own_name() as name, Cluster(name).up(node=False) as cluster:
        cluster.kubectl("apply", "--server-side", f"--filename={ROOT / 'crds'}")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield cluster


@pytest.fixture(scope="session")
def server(cluster: Cluster) -> Iterator[Server]:
    """The API server, with all rights."""
    with Server(cluster.kubeconfig) as server:
        yield server


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of its own; what the test leaves in it goes with it, in the background."""
    name = f"test-{next(_numbers)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def kubelet(cluster: Cluster) -> Iterator[Kubelet]:
    """The only node: 8 nvidia.com/gpu and 4 nvidia.com/gpu.shared."""
    with Server(cluster.kubeconfig) as server, Kubelet(server) as kubelet:
        yield kubelet


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """What pods measure."""
    with Workers() as workers:
        yield workers


@pytest.fixture(scope="session")
def prometheus(cluster: Cluster, workers: Workers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes every running pod of a job once a second. A test that stops it starts it again."""
    with Prometheus(cluster, workers.address, tmp_path_factory.mktemp("prometheus")) as prometheus:
        yield prometheus
