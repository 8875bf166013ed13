"""One real cluster with Prometheus, the operator and a job for all scenarios that need one."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from e2e.cluster import Cluster
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed
from e2e.demo.gpus import GpuLog
from e2e.helm import Helm, helm
from e2e.images.build import TARGETS, build
from e2e.install import MANIFESTS, NAMESPACE, load_release
from e2e.kube import Kube, Object, load_yaml, wait_for
from e2e.readme import README, Terminal, commands
from e2e.scenarios.live import NAMESPACE as JOBS
from e2e.scenarios.live import READY_SECONDS, LiveJob

EXAMPLE = MANIFESTS / "examples" / "calculator.yaml"
SECONDS = 1800
"""Of one test, the cluster's start included: a bound for what hangs, not a promise of speed."""
STEPS = 100_000
ON_ONE_CLUSTER = ("test_install.py", "test_job.py", "test_pool.py", "test_rehearsal.py")

LOOKS = (
    ("get", "agenticrljobs,allocationrevisions,pods", "--all-namespaces"),
    ("logs", f"--namespace={NAMESPACE}", "deployment/steelyard-operator", "--tail=40"),
)


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]  # the package has no types
    """What needs the installed cluster runs in the order of its files; every other file may run beside it."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return "the installed cluster" if file.endswith(ON_ONE_CLUSTER) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Asked once, when processes share the work (`-n`)."""
    return ByCluster(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure tells what the cluster looked like: nobody can look at it afterwards."""
    report = yield
    cluster = item.funcargs.get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        report.sections += [(f"kubectl {' '.join(asked)}", _answer(cluster, asked)) for asked in LOOKS]
    return report


def _answer(cluster: Cluster, asked: Sequence[str]) -> str:
    try:
        return cluster.kubectl(*asked)
    except Failed as error:
        return str(error)


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


@pytest.fixture(scope="session")
def manifest() -> Object:
    """The job of the README, as it is written."""
    job, *_ = load_yaml(EXAMPLE)
    return job


@pytest.fixture(scope="session")
def tasks(kube: Kube) -> None:
    """What that job is to learn, for jobs that are made of it."""
    _, *others = load_yaml(EXAMPLE)
    kube.apply(others, JOBS)


@pytest.fixture(scope="session")
def rehearsal(terminal: Terminal, tasks: None) -> Iterator[Future[str]]:  # noqa: ARG001
    """What `steelyard rehearse` records of that job. It runs beside all tests from the first that asks for it."""
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(terminal.run, f"kubectl steelyard rehearse {EXAMPLE} -n {JOBS} -o json", SECONDS)


@pytest.fixture(scope="session")
def gpus(kube: Kube, manifest: Object) -> Iterator[GpuLog]:
    """Watches the job's budget through all that happens to it."""
    with GpuLog(kube, [manifest], JOBS) as log:
        yield log


@pytest.fixture(scope="session")
def job(kube: Kube, terminal: Terminal, manifest: Object, gpus: GpuLog) -> Iterator[LiveJob]:  # noqa: ARG001
    """What the newcomer's second command makes, once it trains; with more to learn than all scenarios last."""
    _, apply, *_ = commands(*README)
    terminal.run(apply)
    job = LiveJob(kube, manifest["metadata"]["name"])
    job.change(algorithm={"steps": STEPS})
    wait_for("the job is ready", lambda: job.condition("Ready").get("status") == "True", READY_SECONDS)
    yield job
    kube.delete("AgenticRLJob", JOBS, job.name)
    wait_for("its pods to go", lambda: not job.all_pods(), READY_SECONDS)
    kube.delete("PersistentVolumeClaim", JOBS, f"{job.name}-checkpoints")
