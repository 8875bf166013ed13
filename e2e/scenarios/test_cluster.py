"""The embedded cluster does what the product needs of a Kubernetes, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster import Cluster, buildah, cgroups, images, layout, requirements
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed, run
from e2e.cluster.testing import firewall, processes, traces
from e2e.kube import Object, wait_for

pytestmark = pytest.mark.timeout(600)

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def base() -> str:
    return images.base(Progress())


@pytest.fixture(scope="module")
def cluster(base: str) -> Iterator[Cluster]:
    with Cluster("parts").up(prometheus=True) as cluster:
        cluster.load(base)
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-").removeprefix("test-")[:50].rstrip("-")
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def pod(name: str, image: str, command: str = "", *, limits: Object | None = None, claim: str = "") -> Object:
    container: Object = {
        "name": "main",
        "image": image,
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": limits or {}},
    }
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 1, "enableServiceLinks": False}
    if command:
        container["command"] = ["sh", "-c", command]
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def claim(name: str, storage_class: str | None = None) -> Object:
    spec: Object = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def apply(cluster: Cluster, namespace: str, *objects: Object) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(items))


def wait(cluster: Cluster, namespace: str, what: str, condition: str) -> None:
    cluster.kubectl(
        "wait", what, f"--namespace={namespace}", f"--for={condition}", f"--timeout={PATIENCE_SECONDS}s", timeout=90
    )


def inside(cluster: Cluster, namespace: str, pod: str, *command: str) -> str:
    return cluster.kubectl("exec", f"--namespace={namespace}", pod, "--", *command)


@pytest.mark.parametrize(("resource", "count"), [("nvidia.com/gpu", 8), ("nvidia.com/gpu.shared", 4)])
def test_each_pod_gets_a_device_of_its_own_and_one_too_many_waits(
    cluster: Cluster, base: str, resource: str, count: int
) -> None:
    namespace = resource.replace("/", "-").replace(".", "-")
    cluster.kubectl("create", "namespace", namespace)
    holders = [f"holder-{number}" for number in range(count)]
    apply(cluster, namespace, *(pod(name, base, "exec sleep 3600", limits={resource: 1}) for name in holders))
    for name in holders:
        wait(cluster, namespace, f"pod/{name}", "condition=Ready")
    devices = [inside(cluster, namespace, name, "printenv", "NVIDIA_VISIBLE_DEVICES") for name in holders]
    assert len(set(devices)) == count

    apply(cluster, namespace, pod("one-too-many", base, "exec sleep 3600", limits={resource: 1}))
    wait(cluster, namespace, "pod/one-too-many", "jsonpath={.status.conditions[0].reason}=Unschedulable")
    assert f"Insufficient {resource}" in cluster.kubectl("describe", "pod", f"--namespace={namespace}", "one-too-many")

    cluster.kubectl("delete", "pod", f"--namespace={namespace}", holders[0])
    wait(cluster, namespace, "pod/one-too-many", "condition=Ready")
    assert inside(cluster, namespace, "one-too-many", "printenv", "NVIDIA_VISIBLE_DEVICES") == devices[0]
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


SERVE = "echo ready to serve; exec python3 -u -m http.server 8000"


def service(name: str) -> Object:
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def test_services_answer_by_name_in_pods_and_by_address_on_the_host(
    cluster: Cluster, base: str, namespace: str
) -> None:
    apply(cluster, namespace, pod("web", base, SERVE), service("web"), pod("client", base, "exec sleep 3600"))
    for name in ("web", "client"):
        wait(cluster, namespace, f"pod/{name}", "condition=Ready")
    assert "ready to serve" in cluster.kubectl("logs", f"--namespace={namespace}", "web")

    for host in ("web", f"web.{namespace}.svc.cluster.local"):
        fetch = f"import urllib.request as u; print(u.urlopen('http://{host}/etc/hostname').read().decode())"
        command = ("python3", "-c", fetch)
        wait_for(f"{host} answers", partial(succeeds, cluster, namespace, "client", *command), PATIENCE_SECONDS)
        assert inside(cluster, namespace, "client", *command).strip() == "web"

    get = ("get", f"--namespace={namespace}")
    pod_address = cluster.kubectl(*get, "pod", "web", "--output=jsonpath={.status.podIP}")
    service_address = cluster.kubectl(*get, "service", "web", "--output=jsonpath={.spec.clusterIP}")
    for url in (f"http://{pod_address}:8000/etc/hostname", f"http://{service_address}/etc/hostname"):
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.read() == b"web\n"


def succeeds(cluster: Cluster, namespace: str, pod: str, *command: str) -> bool:
    try:
        inside(cluster, namespace, pod, *command)
    except Failed:
        return False
    return True


def test_a_changed_image_reaches_pods_and_what_they_change_stays_theirs(
    cluster: Cluster, base: str, namespace: str, tmp_path: Path
) -> None:
    with derived(base, tmp_path / "greeting") as (tag, commit):
        for name, greeting in (("first", "good morning"), ("second", "good evening")):
            commit(greeting)
            cluster.load(tag)
            apply(cluster, namespace, pod(name, tag, "exec sleep 3600"))
            wait(cluster, namespace, f"pod/{name}", "condition=Ready")
            change = "cat /greeting && echo changed >/greeting && chmod 600 /greeting && rm -r /etc/apt"
            assert inside(cluster, namespace, name, "sh", "-c", change) == greeting

            built = buildah.Layers.of_buildah().files(buildah.image(tag).layers[-1]) / "greeting"
            assert built.read_text() == greeting
            assert (built.stat().st_nlink, built.stat().st_mode & 0o777) == (2, 0o644)


@contextmanager
def derived(base: str, file: Path) -> Iterator[tuple[str, Callable[[str], None]]]:
    """The tag of an image of the base and this file, and what commits it with the file's content."""
    tag = f"{images.REPOSITORY}-tests/derived:1"
    container = run("buildah", "from", base).strip()
    committed = []

    def commit(content: str) -> None:
        file.write_text(content)
        run("buildah", "copy", "--chmod=644", container, file, f"/{file.name}")
        committed.append(run("buildah", "commit", "--quiet", container, tag).strip())

    try:
        yield tag, commit
    finally:
        run("buildah", "rm", container)
        run("buildah", "rmi", "--force", *committed)


def test_pods_of_any_user_share_a_claim_and_its_class_decides_what_stays(
    cluster: Cluster, base: str, namespace: str
) -> None:
    writer = pod("writer", base, "echo hello >/data/note; exec sleep 3600", claim="shared")
    writer["spec"]["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    reader = pod("reader", base, "exec sleep 3600", claim="shared")
    apply(cluster, namespace, claim("shared"), claim("kept", "directory-retain"), writer, reader)
    for name in ("writer", "reader"):
        wait(cluster, namespace, f"pod/{name}", "condition=Ready")
    note = ("grep", "hello", "/data/note")
    wait_for("the note is there", lambda: succeeds(cluster, namespace, "reader", *note), PATIENCE_SECONDS)

    wait(cluster, namespace, "pvc/kept", "jsonpath={.status.phase}=Bound")
    get = ("get", "pvc", f"--namespace={namespace}", "--output=jsonpath={.spec.volumeName}")
    volumes = layout.state(cluster.name) / "volumes"
    shared, kept = (volumes / cluster.kubectl(*get, name) for name in ("shared", "kept"))
    assert (shared / "note").read_text() == "hello\n"
    cluster.kubectl("delete", "pod,pvc", "--all", f"--namespace={namespace}")
    wait_for("the deleted claim's directory is gone", lambda: not shared.exists(), PATIENCE_SECONDS)
    assert kept.is_dir()
    cluster.kubectl("delete", "pv", kept.name)


def test_pods_run_in_the_group_that_leaves_the_daemons_their_share(cluster: Cluster, base: str, namespace: str) -> None:
    apply(cluster, namespace, pod("sleeper", base, "exec sleep 34567"))
    wait(cluster, namespace, "pod/sleeper", "condition=Ready")
    group = cgroups.name(cluster.name)
    (sleeper,) = (process for process in processes() if " sleep 34567 " in process)
    assert f"/{group}/{cgroups.PODS}/" in sleeper
    servers = [process for process in processes() if " kube-apiserver " in process and cluster.name in process]
    assert [f"/{group}/{cgroups.DAEMONS}" in server for server in servers] == [True]


WORKER = """
mkdir /tmp/served && cd /tmp/served && echo 'steelyard_stage_slots{stage="sampler"} 4' >metrics
exec python3 -c '
from http.server import SimpleHTTPRequestHandler as Handler, test
Handler.extensions_map[""] = "text/plain"
test(Handler, port=8000)'
"""


def test_prometheus_scrapes_pods_of_jobs_under_the_names_of_their_labels(
    cluster: Cluster, base: str, namespace: str
) -> None:
    worker = pod("worker", base, WORKER)
    worker["metadata"]["labels"] |= {
        "steelyard.dev/job": "calculator",
        "steelyard.dev/stage": "sampler",
        "steelyard.dev/profile": "full",
    }
    apply(cluster, namespace, worker, pod("bystander", base, SERVE))

    get = ("get", "service", "prometheus", "--namespace=monitoring", "--output=jsonpath={.spec.clusterIP}")
    address = cluster.kubectl(*get)

    def samples() -> list[dict[str, str]]:
        query = f"http://{address}:9090/api/v1/query?query=steelyard_stage_slots"
        with urllib.request.urlopen(query, timeout=5) as answer:
            return [result["metric"] for result in json.load(answer)["data"]["result"]]

    wait_for("the worker is scraped", samples, PATIENCE_SECONDS)
    (sample,) = samples()
    wanted = {"namespace": namespace, "pod": "worker", "steelyard_job": "calculator", "profile": "full"}
    assert wanted | {"stage": "sampler"} == {name: sample[name] for name in (*wanted, "stage")}
    assert not [name for name in sample if name.startswith("exported_")]


def test_clusters_of_different_names_do_not_meet(cluster: Cluster) -> None:
    with Cluster("neighbour").up(node=False) as neighbour:
        neighbour.kubectl("create", "namespace", "only-here")
        assert "only-here" not in cluster.kubectl("get", "namespaces")
        assert not neighbour.subnets.overlaps(cluster.subnets.pods)
    assert cluster.running
    assert "Ready" in cluster.kubectl("get", "nodes")


def test_down_leaves_nothing_of_the_cluster() -> None:
    requirements.check(Progress(), node=True)
    rules = firewall()
    cluster = Cluster("passing").up()
    subnets = cluster.subnets
    idle = pod("web", images.pause(Progress()), claim="data")
    apply(cluster, "default", claim("data"), idle, service("web"))
    wait(cluster, "default", "pod/web", "condition=Ready")
    assert [kind for kind, found in traces(cluster.name, subnets).items() if not found] == ["mounts"]
    cluster.down()
    assert traces(cluster.name, subnets) == {kind: [] for kind in traces(cluster.name, subnets)}
    assert firewall() == rules


def test_a_start_that_was_killed_is_replaced_and_still_leaves_nothing() -> None:
    holder = Path(layout.state("killed") / "holder.pid")
    start = [sys.executable, "-m", "e2e.cluster", "up", "--name=killed", "--control-plane"]
    with subprocess.Popen(start, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as killed:
        wait_for("the namespaces are there", holder.exists, PATIENCE_SECONDS, every=0.02)
        os.kill(killed.pid, signal.SIGKILL)
    first = int(holder.read_text())
    with Cluster("killed").up(node=False) as cluster:
        assert int(holder.read_text()) != first
        assert "default" in cluster.kubectl("get", "namespaces")
        subnets = cluster.subnets
    assert not [found for found in traces("killed", subnets).values() if found]
