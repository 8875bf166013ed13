"""The harness itself: one small test for each thing that it offers."""

import httpx
import pytest

from e2e.kube import Object, wait_for
from steelyard.api import Stage
from tests.integration.kubelet import Kubelet
from tests.integration.processes import Prometheus
from tests.integration.server import Server
from tests.integration.workers import Work, Workers, stage_work

SOON = 20.0
LABELS = {"steelyard.dev/job": "made-up", "steelyard.dev/stage": "environment"}
POD = {"containers": [{"name": "worker", "image": "none", "ports": [{"name": "http", "containerPort": 8000}]}]}


def deployment(replicas: int) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": POD}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "made-up"}, "spec": spec}


def job() -> Object:
    ignore = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}}
    spec = {
        "completions": 1,
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "podFailurePolicy": {"rules": [ignore]},
        "template": {"metadata": {"labels": LABELS}, "spec": {**POD, "restartPolicy": "Never"}},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "made-up"}, "spec": spec}


def ready_replicas(server: Server, namespace: str) -> int:
    found = server.get("Deployment", namespace, "made-up")
    assert found is not None
    ready: int = found["status"].get("readyReplicas", 0)
    return ready


def running_pod(server: Server, namespace: str) -> Object:
    def probe() -> Object | None:
        running = [pod for pod in server.list("Pod", namespace) if pod["status"].get("phase") == "Running"]
        return running[0] if running else None

    return wait_for("a pod runs", probe, SOON)


def test_the_pods_of_a_deployment_become_ready(server: Server, kubelet: Kubelet, namespace: str) -> None:
    server.apply([deployment(2)], namespace)

    wait_for("two replicas are ready", lambda: ready_replicas(server, namespace) == 2, SOON)


def test_a_deleted_pod_drains_as_long_as_the_test_wants(server: Server, kubelet: Kubelet, namespace: str) -> None:
    server.apply([deployment(1)], namespace)
    pod = running_pod(server, namespace)["metadata"]

    with kubelet.drains_for(60):
        server.delete("Pod", namespace, pod["name"], grace_seconds=30)
        drained = wait_for("the pod is terminating", lambda: server.get("Pod", namespace, pod["name"]), SOON)
        assert "deletionTimestamp" in drained["metadata"]
    wait_for("the pod is gone", lambda: server.get("Pod", namespace, pod["name"]) is None, SOON)


def test_pods_wait_as_long_as_the_test_wants_and_say_why(server: Server, kubelet: Kubelet, namespace: str) -> None:
    def reason() -> str | None:
        pods = server.list("Pod", namespace)
        states = [c["state"] for pod in pods for c in pod["status"].get("containerStatuses", [])]
        return states[0].get("waiting", {}).get("reason") if states else None

    with kubelet.keeps_waiting(LABELS, "ImagePullBackOff"):
        server.apply([deployment(1)], namespace)
        assert wait_for("the pod says why it waits", reason, SOON) == "ImagePullBackOff"
    wait_for("the replica is ready", lambda: ready_replicas(server, namespace) == 1, SOON)


@pytest.mark.parametrize(
    ("exit_code", "condition"), [(0, "Complete"), (64, "Failed")], ids=["success", "a mistake of the user"]
)
def test_a_job_ends_as_its_pod_does(
    server: Server, kubelet: Kubelet, namespace: str, exit_code: int, condition: str
) -> None:
    server.apply([job()], namespace)
    kubelet.finish(running_pod(server, namespace), exit_code, '{"complete": true}')

    def conditions() -> set[str]:
        found = server.get("Job", namespace, "made-up") or {}
        return {c["type"] for c in found["status"].get("conditions", []) if c["status"] == "True"}

    wait_for(f"the job is {condition}", lambda: condition in conditions(), SOON)


def test_a_job_forgives_the_exit_code_of_a_planned_stop(server: Server, kubelet: Kubelet, namespace: str) -> None:
    server.apply([job()], namespace)
    stopped = running_pod(server, namespace)
    kubelet.finish(stopped, 75)

    def replaced() -> bool:
        return bool(running_pod(server, namespace)["metadata"]["uid"] != stopped["metadata"]["uid"])

    wait_for("another pod runs", replaced, SOON)


def test_a_claim_is_bound(server: Server, kubelet: Kubelet, namespace: str) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights"}, "spec": spec}
    server.apply([claim], namespace)

    def bound() -> bool:
        found = server.get("PersistentVolumeClaim", namespace, "weights") or {}
        return bool(found["status"].get("phase") == "Bound")

    wait_for("the claim is bound", bound, SOON)


def test_prometheus_reads_what_the_workers_of_a_test_show(
    server: Server, kubelet: Kubelet, workers: Workers, prometheus: Prometheus, namespace: str
) -> None:
    workers.show(namespace, "made-up", Stage.ENVIRONMENT, stage_work(Stage.ENVIRONMENT, 2.0, slots=4, busy=0.75))
    server.apply([deployment(1)], namespace)
    pod = running_pod(server, namespace)["metadata"]["name"]

    def busy_seconds_a_second() -> float:
        query = f'sum(rate(steelyard_stage_seconds_total{{namespace="{namespace}",pod="{pod}",state="busy"}}[5s]))'
        answer = httpx.get(f"{prometheus.url}/api/v1/query", params={"query": query}, trust_env=False).json()
        return sum(float(row["value"][1]) for row in answer["data"]["result"])

    wait_for("Prometheus sees the made-up rate", lambda: busy_seconds_a_second() == pytest.approx(3, rel=0.1), SOON)


def test_a_killed_program_can_be_started_again(prometheus: Prometheus) -> None:
    prometheus.kill()
    assert not prometheus.running

    prometheus.start()
    assert prometheus.running


def test_counters_go_on_when_the_work_changes(workers: Workers) -> None:
    workers.show("ns", "job", "sampler", Work(counters={"tokens": 1e9}))
    workers.page("/ns/job/sampler/pod-1")
    first = workers.page("/ns/job/sampler/pod-1")
    workers.show("ns", "job", "sampler", Work(counters={"tokens": 0.0}, gauges={"running": 3}))
    second = workers.page("/ns/job/sampler/pod-1")

    assert first is not None
    assert second is not None
    assert float(second.split()[1]) >= float(first.split()[1]) > 0
    assert "running 3" in second
    workers.show("ns", "job", "sampler", None)
    assert workers.page("/ns/job/sampler/pod-1") is None


def test_no_tests_time_runs_while_programs_are_built(request: pytest.FixtureRequest) -> None:
    """On a new machine that takes minutes."""
    built = {"cluster", "programs", "promtool"}
    needy = [item for item in request.session.items if built & set(getattr(item, "fixturenames", ()))]
    assert [item.nodeid for item in needy if not own_time_only(item)] == []


def own_time_only(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and bool(marker.kwargs.get("func_only"))
