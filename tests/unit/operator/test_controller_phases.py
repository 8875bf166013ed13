"""A job stops, resumes, ends, or cannot go on; and says which."""

from __future__ import annotations

from steelyard.children.common import Images
from steelyard.cluster.errors import Refused
from tests.unit.operator.operating import FIXED, IMAGES, RUNNING, Operated, fixed, written


async def test_a_job_is_suspended_from_the_environment_to_the_bus_and_keeps_its_claims(operated: Operated) -> None:
    operated.cluster.drains = True
    operated.change_spec({"suspend": True})
    stopped: list[str] = []

    for _ in range(12):
        before = operated.cluster.replicas()
        await operated.run(1)
        after = operated.cluster.replicas()
        stopped += [name for name, n in before.items() if n and not after.get(name)]
        assert operated.condition("Suspended")[0] == ("True" if not operated.cluster.pods() else "False")
        operated.cluster.let_go()

    assert stopped == [
        "calculator-environment",
        "calculator-reward-server-whole",
        "calculator-sampler-whole",
        "calculator-trainer-whole",
        "calculator-bus",
    ]
    assert operated.condition("Suspended")[0] == "True"
    assert operated.status["phase"] == "Suspended"
    assert len(operated.cluster.names("PersistentVolumeClaim")) == 3


async def test_a_resumed_job_starts_its_bus_first(operated: Operated) -> None:
    operated.change_spec({"suspend": True})
    await operated.settle()
    operated.change_spec({"suspend": False})

    await operated.tick()
    assert {name for name, n in operated.cluster.replicas().items() if n} == {"calculator-bus"}

    await operated.settle()
    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Ready")[0] == "True"


async def test_a_new_operator_leaves_the_images_of_a_running_job_until_it_resumes(operated: Operated) -> None:
    operated.images = Images({role: image.replace(":1", ":2") for role, image in IMAGES.by_role.items()})
    operated.cluster.writes.clear()
    operated.restart()
    await operated.settle()
    assert written(operated) == []

    operated.change_spec(fixed(sampler={"whole": 2, "slice": 1}))
    await operated.settle()
    assert images(operated) == {
        "example/sampler:1",
        "example/environment:1",
        "example/reward-server:1",
        "example/trainer:1",
    }

    operated.change_spec({"suspend": True})
    await operated.settle()
    operated.change_spec({"suspend": False})
    await operated.settle()
    assert images(operated) == {
        "example/sampler:2",
        "example/environment:2",
        "example/reward-server:2",
        "example/trainer:2",
    }


async def test_after_an_upgrade_a_change_brings_new_images_only_to_the_stage_that_it_restarts(
    operated: Operated,
) -> None:
    operated.images = Images({role: image.replace(":1", ":2") for role, image in IMAGES.by_role.items()})
    operated.restart()
    await operated.settle()
    operated.cluster.writes.clear()

    operated.change_spec({"algorithm": {"steps": 400}})
    await operated.settle()

    assert {name for name in written(operated) if "trainer" not in name} == {"apply ConfigMap calculator-config"}
    assert images(operated) == {
        "example/sampler:1",
        "example/environment:1",
        "example/reward-server:1",
        "example/trainer:2",
    }


async def test_after_an_upgrade_no_change_of_a_stage_restarts_the_bus(operated: Operated) -> None:
    """Its exporter runs the environment's image, and every worker waits while the bus is away."""
    operated.images = Images({role: image.replace(":1", ":2") for role, image in IMAGES.by_role.items()})
    operated.restart()
    await operated.settle()
    operated.cluster.writes.clear()
    stages = operated.cluster.get("AgenticRLJob", "calculator")["spec"]["stages"]
    for argument in ("a", "b"):
        environment = {**stages["environment"], "args": {"x": argument}}
        operated.change_spec({"stages": {**stages, "environment": environment}})
        await operated.settle()
    assert "apply StatefulSet calculator-bus" not in written(operated)
    template = operated.cluster.get("Deployment", "calculator-environment")["spec"]["template"]["spec"]
    assert {container["image"] for container in template["containers"]} == {"example/environment:2"}


def images(operated: Operated) -> set[str]:
    pods = [pod for pod in operated.cluster.pods() if pod["metadata"]["labels"]["steelyard.dev/stage"] != "bus"]
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


async def test_a_completed_job_keeps_its_trainer_and_claims_and_nothing_else(operated: Operated) -> None:
    operated.cluster.end_trainer("Complete", '{"complete": true, "step": 200}')

    await operated.settle()

    assert operated.cluster.replicas() == {"calculator-trainer-whole": 1}
    assert operated.condition("Complete")[:2] == ("True", "TrainerComplete")
    assert operated.status["phase"] == "Complete"
    assert operated.status["training"]["step"] == 200
    operated.cluster.delete("Job", "calculator-trainer-whole")
    operated.cluster.delete("AllocationRevision", "calculator-1")
    await operated.settle()
    assert operated.cluster.replicas() == {}
    assert operated.condition("Complete")[0] == "True"


async def test_a_completed_job_goes_on_when_its_run_is_made_longer(operated: Operated) -> None:
    operated.cluster.end_trainer("Complete", '{"complete": true, "step": 200}')
    await operated.settle()

    operated.change_spec({"algorithm": {"steps": 400}})
    await operated.settle()

    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Complete")[0] == "False"


async def test_a_trainer_that_only_the_user_can_help_fails_the_job_in_its_own_words(operated: Operated) -> None:
    operated.cluster.end_trainer("Failed", "tasks: /tasks holds no *.jsonl file")

    await operated.settle()

    assert operated.condition("Failed") == ("True", "TrainerFailed", "tasks: /tasks holds no *.jsonl file")
    assert operated.condition("Stalled")[0] == "True"
    assert set(operated.cluster.replicas()) == {"calculator-trainer-whole"}


async def test_a_failed_job_starts_again_when_its_spec_is_mended(operated: Operated) -> None:
    operated.cluster.end_trainer("Failed", "checkpoint of another model")
    await operated.settle()

    operated.change_spec({"algorithm": {"args": {"learningRate": "1e-5"}}})
    await operated.settle()

    assert operated.cluster.replicas() == RUNNING
    assert operated.condition("Failed")[0] == "False"


async def test_a_job_that_becomes_invalid_says_so_and_is_left_running(operated: Operated) -> None:
    operated.change_spec({"buffer": {"maxExperience": 1}})

    await operated.run(3)

    status, reason, message = operated.condition("Stalled")
    assert (status, reason) == ("True", "InvalidSpec")
    assert "maxExperience 1 must be at least" in message
    assert operated.condition("Ready")[0] == "True"
    assert operated.cluster.replicas() == RUNNING


async def test_what_the_api_server_refuses_becomes_a_condition() -> None:
    """kubeflow/trainer#2351: a child that cannot be created must not leave the status empty."""
    operated = Operated(FIXED)
    operated.cluster.refuses = Refused("pods are forbidden: exceeded quota")

    await operated.tick()

    assert operated.condition("Degraded") == ("True", "ApplyRefused", "pods are forbidden: exceeded quota")
    assert operated.condition("Stalled")[0] == "True"


async def test_a_refusal_that_quotes_a_whole_object_is_one_line_in_the_condition() -> None:
    """A changed claim is refused with all of its spec; a message that the status has no room for would hide it."""
    operated = Operated(FIXED)
    operated.cluster.refuses = Refused("spec: Forbidden: is immutable\n" + "  core.Spec{Field: nil}\n" * 2000)

    await operated.tick()

    message = operated.condition("Stalled")[2]
    assert message.startswith("spec: Forbidden: is immutable core.Spec")
    assert len(message) <= 500


async def test_a_ledger_that_takes_no_entry_becomes_a_condition_and_nothing_runs_that_it_does_not_hold() -> None:
    """kubeflow/trainer#2351: a quota on allocationrevisions left a job without a word."""
    operated = Operated(FIXED)
    operated.cluster.refuses_to_record = Refused("exceeded quota: count/allocationrevisions.steelyard.dev")

    await operated.run(3)

    assert operated.condition("Stalled")[:2] == ("True", "ApplyRefused")
    assert "count/allocationrevisions" in operated.condition("Stalled")[2]
    assert operated.cluster.pods() == operated.cluster.pods("bus")
    operated.cluster.refuses_to_record = None
    await operated.run(3)
    assert operated.condition("Stalled")[0] == "False"
    assert operated.cluster.replicas() == RUNNING
