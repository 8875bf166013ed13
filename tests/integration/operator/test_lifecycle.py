"""A job's life on a real API server: start, steady state, suspension, completion, failure, deletion."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from e2e.kube import Object
from tests.integration.operator.operating import STARTED, Operated

pytestmark = pytest.mark.timeout(240, func_only=True)

RUNNING = {**STARTED, "calculator-trainer-whole": 1, "calculator-bus": 1}


def versions(operated: Operated) -> dict[tuple[str, str], str]:
    """resourceVersion of every child; the ledger and the job's status have their own rhythm."""
    objects = operated.objects()
    return {key: obj["metadata"]["resourceVersion"] for key, obj in objects.items() if key[0] != "AllocationRevision"}


def test_a_job_becomes_ready_where_only_restricted_pods_may_run(operated: Operated) -> None:
    operated.start()

    assert operated.replicas() == RUNNING
    assert operated.job()["status"]["phase"] == "Running"
    assert operated.job()["status"]["gpus"] == {"budget": "4", "used": "4"}
    assert operated.condition("Reconciling")["status"] == "False"
    assert operated.revisions() == ["calculator-1"]


def test_nothing_is_written_when_nothing_changed_not_even_by_a_new_operator(operated: Operated) -> None:
    operated.start()
    trainer = ("Job", "calculator-trainer-whole")
    operated.until(
        "Kubernetes' last word on the trainer", lambda: operated.objects()[trainer]["status"].get("ready") == 1
    )
    operated.pass_rounds(3)
    before = versions(operated)

    operated.pass_rounds(3)
    operated.operator.stop()
    operated.operator.start()
    operated.pass_rounds(3)

    assert versions(operated) == before


def test_the_operator_needs_at_most_150_mib(operated: Operated) -> None:
    operated.start()
    operated.pass_rounds(3)

    assert operated.operator.memory_mib() <= 150


def test_a_job_of_the_longest_name_runs(operated: Operated) -> None:
    """ray-project/kuberay#3980: a long name was retried for ever, without a status."""
    name = "j" * 40

    operated.start(name=name)

    assert operated.condition("Ready", name=name)["status"] == "True"


def test_a_job_is_suspended_and_resumed(operated: Operated) -> None:
    operated.start()

    operated.change({"suspend": True})
    operated.until("it is suspended", lambda: operated.has("Suspended"))
    assert operated.pods() == []
    assert operated.replicas() == {}
    assert {name for kind, name in operated.objects() if kind == "PersistentVolumeClaim"} == {
        "calculator-bus",
        "calculator-checkpoints",
        "calculator-weights",
    }

    operated.change({"suspend": False})
    operated.until("it runs again", lambda: operated.has("Ready"))
    assert operated.replicas() == RUNNING


def test_a_completed_job_keeps_its_claims_and_how_it_ended(operated: Operated) -> None:
    operated.start()
    (trainer,) = operated.pods("trainer")

    operated.kubelet.finish(trainer, 0, '{"complete": true, "step": 200}')
    operated.until("it is complete", lambda: operated.has("Complete"))
    operated.until("its workers are gone", lambda: set(operated.replicas()) == {"calculator-trainer-whole"})

    operated.until(
        "its pods are gone",
        lambda: [p["metadata"]["labels"]["steelyard.dev/stage"] for p in operated.pods()] == ["trainer"],
    )
    assert operated.job()["status"]["phase"] == "Complete"


def test_a_trainer_that_was_stopped_after_its_commit_goes_on(operated: Operated) -> None:
    operated.start()
    (first,) = operated.pods("trainer")

    operated.kubelet.finish(first, 75)

    def another() -> bool:
        running = [pod for pod in operated.pods("trainer") if pod["status"].get("phase") == "Running"]
        return [pod["metadata"]["uid"] for pod in running] not in ([], [first["metadata"]["uid"]])

    operated.until("another trainer runs", another)
    assert not operated.has("Complete")
    assert not operated.has("Failed")


def test_what_only_the_user_can_mend_fails_the_job_in_the_trainers_words(operated: Operated) -> None:
    operated.start()
    (trainer,) = operated.pods("trainer")

    operated.kubelet.finish(trainer, 64, "tasks: /tasks holds no *.jsonl file")
    operated.until("it has failed", lambda: operated.has("Failed"))

    assert operated.condition("Failed")["message"] == "tasks: /tasks holds no *.jsonl file"
    assert operated.has("Stalled")


@pytest.mark.parametrize("operator_runs", [True, False], ids=["with the operator", "while the operator is down"])
def test_a_deleted_job_leaves_nothing_but_its_checkpoints(operated: Operated, operator_runs: bool) -> None:
    """zalando-incubator/kopf#75: without finalizers nobody has to be there for a deletion to end."""
    operated.start()
    if not operator_runs:
        operated.operator.kill()

    operated.server.delete("AgenticRLJob", operated.namespace, "calculator")

    left = {("PersistentVolumeClaim", "calculator-checkpoints")}
    operated.until("everything else is gone", lambda: set(operated.objects()) == left and not operated.pods())
    if not operator_runs:
        operated.operator.start()
        operated.start(name="another")
        assert {key for key in operated.objects() if not key[1].startswith("another")} == left


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named_within_a_minute(operated: Operated, reason: str) -> None:
    """ray-project/kuberay#4178: stuck for ever in Initializing, without a reason."""
    stage = {"steelyard.dev/stage": "sampler"}
    with operated.kubelet.keeps_waiting(stage, reason):
        operated.create()
        operated.until("the condition says so", lambda: operated.has("Degraded"), seconds=60)

    assert operated.condition("Degraded")["reason"] == reason
    assert "calculator-sampler-whole" in operated.condition("Degraded")["message"]


def test_pods_without_a_node_are_named(operated: Operated) -> None:
    template = {"spec": {"nodeSelector": {"disk": "none-has-this"}}}
    operated.create({"stages.environment.template": template})

    operated.until("the condition says so", lambda: operated.has("Scheduled", "False"))

    assert operated.condition("Scheduled")["reason"] == "Unschedulable"
    assert "calculator-environment" in operated.condition("Scheduled")["message"]


def test_a_volume_that_cannot_be_mounted_is_told_in_the_kubelets_words_within_a_minute(operated: Operated) -> None:
    """A data set that does not exist: the pod waits for ever and only an event says why."""
    with operated.kubelet.keeps_waiting({"steelyard.dev/stage": "trainer"}):
        operated.create()
        (trainer,) = operated.until("the trainer has a node", lambda: _bound(operated.pods("trainer")))
        words = 'MountVolume.SetUp failed for volume "tasks": configmap "calculator-tasks" not found'
        warn(operated, trainer, "FailedMount", words)
        operated.until("the condition says so", lambda: operated.has("Degraded"), seconds=60)

    assert words in operated.condition("Degraded")["message"]


def _bound(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def warn(operated: Operated, pod: Object, reason: str, message: str) -> None:
    """What a kubelet does."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": "Pod", "namespace": operated.namespace, **{key: pod["metadata"][key] for key in ("name", "uid")}}
    event = {
        "metadata": {"generateName": "mount-", "namespace": operated.namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    operated.server.request("POST", f"/api/v1/namespaces/{operated.namespace}/events", event)
