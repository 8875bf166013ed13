"""From nothing to an explained decision, and then everything that can be done to an installation while a job trains.

The tests run in this order on one job. Whatever is installed, upgraded or removed: no worker of it restarts.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import Cluster
from e2e.cluster.shell import Failed
from e2e.faults import restarts
from e2e.helm import CHART, RELEASE, Helm
from e2e.install import MANIFESTS, NAMESPACE, install_operator
from e2e.kube import Kube, Object, condition, wait_for
from e2e.readme import README, Terminal, commands
from e2e.scenarios.live import NAMESPACE as JOBS
from e2e.scenarios.live import READY_SECONDS, LiveJob

LAST_RELEASE = Path(__file__).with_name("releases") / "steelyard-0.1.0.tgz"
"""The chart as it was released last: tags do not travel with every copy of this repository."""
DECISION_SECONDS = 600
SETTLED_SECONDS = 10
EXAMPLES = "agents-research"
LEADER = "leader-of-default"

Workers = dict[str, tuple[str, int]]
"""Pod -> its uid and how often its containers were started again."""


@pytest.fixture(scope="module")
def steady(job: LiveJob, manifest: Object) -> Iterator[Workers]:
    """Its workers, held where they are until these tests are over."""
    held = job.revisions()[-1]["spec"]["allocation"]["after"]
    job.change(scaling={"mode": "Fixed", "fixed": held})

    def settled() -> Workers | None:
        before = workers(job)
        time.sleep(SETTLED_SECONDS)
        ready = [condition(pod, "Ready").get("status") == "True" for pod in job.all_pods()]
        return before if all(ready) and workers(job) == before else None

    yield wait_for("workers that stay", settled, READY_SECONDS)
    job.change(scaling={**manifest["spec"]["scaling"], "fixed": None})


@pytest.fixture(scope="module", autouse=True)
def restored(installed: Cluster) -> Iterator[None]:
    """Other scenarios find an operator, whatever happened here."""
    yield
    install_operator(installed)


def workers(job: LiveJob) -> Workers:
    return {pod["metadata"]["name"]: (pod["metadata"]["uid"], restarts(pod)) for pod in job.all_pods()}


def reconciled(job: LiveJob) -> None:
    """Wait until an operator has taken in a change that is made now: it acts, and has looked at the job."""
    cooldown = 10 + int(time.time()) % 1000
    job.change(scaling={"cooldownSeconds": cooldown})

    def seen() -> bool:
        resource = job.resource
        return bool(resource["status"].get("observedGeneration") == resource["metadata"]["generation"])

    wait_for("an operator that looks at the job", seen, READY_SECONDS)


def test_the_readme_leads_from_nothing_to_an_explained_decision(terminal: Terminal, job: LiveJob) -> None:
    _, _, *look = commands(*README)

    def moved() -> Object | None:
        moves = [r for r in job.revisions() if r["spec"]["allocation"].get("before")]
        return next((move for move in moves if (move.get("status") or {}).get("verdict")), None)

    move = wait_for("a move that was judged", moved, DECISION_SECONDS)
    *_, explained = [terminal.run(command) for command in look]

    assert move["spec"]["number"] == 2, "the first of the ledger is the allocation that a job starts with"
    assert move["status"]["verdict"] in explained
    assert " ".join(move["spec"]["reason"].split()[:5]) in " ".join(explained.split())


@pytest.mark.usefixtures("installed")
def test_the_release_says_that_it_works(helms: dict[int, Helm]) -> None:
    assert "Succeeded" in helms[4]("test", RELEASE, f"--namespace={NAMESPACE}")


def test_an_uninstall_keeps_jobs_and_their_workers(
    helms: dict[int, Helm], kube: Kube, job: LiveJob, steady: Workers
) -> None:
    """volcano-sh/volcano#5727, opster/opensearch-k8s-operator#1539."""
    helms[4]("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait")

    assert kube.list("Deployment", NAMESPACE) == []
    assert len(job.revisions()) > 1
    assert workers(job) == steady


def test_the_last_release_takes_the_job_over(helms: dict[int, Helm], job: LiveJob, steady: Workers) -> None:
    helms[3]("install", RELEASE, LAST_RELEASE, f"--namespace={NAMESPACE}", "--wait")

    reconciled(job)
    assert workers(job) == steady


def test_an_upgrade_from_it_restarts_no_worker(
    helms: dict[int, Helm], kube: Kube, job: LiveJob, steady: Workers
) -> None:
    values: Object = {"logLevel": "DEBUG"}
    helms[3]("upgrade", RELEASE, CHART, f"--namespace={NAMESPACE}", "--wait", values=values)

    (operator,) = kube.list("Deployment", NAMESPACE)
    assert operator["metadata"]["labels"]["helm.sh/chart"] == f"steelyard-{chart_version()}"
    assert "Succeeded" in helms[3]("test", RELEASE, f"--namespace={NAMESPACE}")
    reconciled(job)
    assert workers(job) == steady


def test_helm_4_goes_on_with_a_release_of_helm_3(helms: dict[int, Helm], job: LiveJob, steady: Workers) -> None:
    values: Object = {"networkPolicy": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}
    helms[4]("upgrade", RELEASE, CHART, f"--namespace={NAMESPACE}", "--wait", values=values)

    reconciled(job)
    assert workers(job) == steady


@pytest.mark.parametrize("well", [True, False], ids=["that trains", "that cannot"])
def test_helm_4_waits_for_a_job(
    helms: dict[int, Helm], job: LiveJob, steady: Workers, manifest: Object, tmp_path: Path, well: bool
) -> None:
    """Its --wait knows nothing of us: the job's conditions are what kstatus reads."""
    released = {**manifest, "metadata": {**manifest["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}}}
    if well:
        released["spec"] = job.resource["spec"]
    else:
        released["metadata"]["name"] = "waits"
        released["spec"] = {**manifest["spec"], "model": {"claim": {"name": "nobody-made-it"}}}
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "job", "version": "1.0.0"}))
    (tmp_path / "templates" / "job.yaml").write_text(json.dumps(released))  # in YAML 3e-4 is no text to everyone
    install = ("install", "job", tmp_path, f"--namespace={JOBS}", "--take-ownership", "--wait")

    try:
        if well:
            helms[4](*install)
        else:
            with pytest.raises(Failed, match="waits"):
                helms[4](*install, "--timeout=20s")
    finally:
        helms[4]("uninstall", "job", f"--namespace={JOBS}")
        job.kube.delete("AgenticRLJob", JOBS, "waits")

    assert workers(job).items() >= steady.items()


def test_one_namespace_can_be_served_by_somebody_with_rights_in_it_alone(
    helms: dict[int, Helm], cluster: Cluster, job: LiveJob, steady: Workers
) -> None:
    """kubernetes-sigs/kueue#6968, vllm-project/production-stack#871: no ClusterRole is needed, to install or to act."""
    helms[4]("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--wait")
    roles = ("--clusterrole=cluster-admin", f"--user={LEADER}")
    cluster.kubectl("create", "rolebinding", LEADER, *roles, f"--namespace={JOBS}")
    values: Object = {"watchNamespaces": [JOBS], "crds": {"install": False}, "rbac": {"userRoles": False}}
    values |= {"prometheus": {"bundled": {"enabled": True, "image": prometheus_image(cluster), "scrapeInterval": "1s"}}}
    narrow = (f"--namespace={JOBS}", "--wait", f"--kube-as-user={LEADER}")

    helms[4]("install", RELEASE, CHART, *narrow, values=values)
    try:
        reconciled(job)
        wait_for(
            "samples of the Prometheus of its own",
            lambda: job.condition("MetricsAvailable").get("status") == "True",
            READY_SECONDS,
        )
        wide = cluster.kubectl("get", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=steelyard")
        assert wide == ""
        assert workers(job) == steady
    finally:
        helms[4]("uninstall", RELEASE, *narrow)


def test_kustomize_installs_the_same(cluster: Cluster, job: LiveJob, steady: Workers) -> None:
    install_operator(cluster)

    reconciled(job)
    assert workers(job) == steady


def test_every_example_is_accepted_and_gets_its_children(cluster: Cluster, kube: Kube) -> None:
    """In a namespace without room for pods, where it costs nothing; a trainer comes after its bus."""
    cluster.kubectl("create", "namespace", EXAMPLES)
    cluster.kubectl("create", "quota", "no-pods", "--hard=pods=0", f"--namespace={EXAMPLES}")
    try:
        apply = ("apply", "--server-side", f"--namespace={EXAMPLES}")
        cluster.kubectl(*apply, f"--filename={MANIFESTS / 'examples'}")
        cluster.kubectl(*apply, f"--filename={MANIFESTS / 'examples/own/model.yaml'}")
        cluster.kubectl(*apply, f"--kustomize={MANIFESTS / 'examples/own'}")
        jobs = kube.list("AgenticRLJob", EXAMPLES)
        assert {job["metadata"]["name"] for job in jobs} == examples()

        def stages(job: Object) -> set[str]:
            mine = f"steelyard.dev/job={job['metadata']['name']}"
            found = [obj for kind in ("Deployment", "StatefulSet") for obj in kube.list(kind, EXAMPLES, mine)]
            return {obj["metadata"]["labels"]["steelyard.dev/stage"] for obj in found}

        wanted = {"bus", "sampler", "environment", "reward-server"}
        wait_for("the children of each", lambda: all(stages(job) == wanted for job in jobs), READY_SECONDS)
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "namespace", EXAMPLES, timeout=120)
        kube.delete("RLPool", None, "shared")


def examples() -> set[str]:
    """The jobs of all files under manifests/examples."""
    found = [obj for file in (MANIFESTS / "examples").rglob("*.yaml") for obj in yaml.safe_load_all(file.read_text())]
    return {obj["metadata"]["name"] for obj in found if obj.get("kind") == "AgenticRLJob"}


def chart_version() -> str:
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])


def prometheus_image(cluster: Cluster) -> str:
    """The one that the node has."""
    get = ("get", "deployment", "prometheus", "--namespace=monitoring")
    return cluster.kubectl(*get, "--output=jsonpath={.spec.template.spec.containers[0].image}")
