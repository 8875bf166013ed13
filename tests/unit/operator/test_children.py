"""What a job is made of, as readable tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from steelyard.api import AgenticRLJob, Stage
from steelyard.children import children
from steelyard.children.common import ANNOTATION_DIGEST, Images, Manifest, Slot
from tests.builders import START, a_job
from tests.unit.operator.operating import IMAGES

REPLICAS: dict[Slot, int | None] = {
    (stage, profile): START[stage].get(profile, 0)
    for stage, profiles in {
        Stage.SAMPLER: ("whole", "slice"),
        Stage.ENVIRONMENT: ("default",),
        Stage.REWARD_SERVER: ("whole", "slice"),
        Stage.TRAINER: ("whole",),
    }.items()
    for profile in profiles
}


def rendered(
    job: AgenticRLJob | None = None,
    replicas: Mapping[Slot, int | None] = REPLICAS,
    images: Images = IMAGES,
    **more: Any,
) -> dict[tuple[str, str], Manifest]:
    """Children by kind and name."""
    made = children(job or a_job(), replicas, 1, images, **{"monitored": False, **more})
    return {(child["kind"], child["metadata"]["name"]): child for child in made}


def digests(made: Mapping[tuple[str, str], Manifest]) -> dict[str, str]:
    return {name: child["metadata"]["annotations"][ANNOTATION_DIGEST] for (_, name), child in made.items()}


def pod_of(child: Manifest) -> Manifest:
    template: Manifest = child["spec"]["template"]
    return template


def worker_of(child: Manifest) -> Manifest:
    container: Manifest = pod_of(child)["spec"]["containers"][0]
    return container


def test_a_job_consists_of_these_objects() -> None:
    made = {
        f"{kind}/{name}": child["spec"].get("replicas", "") if "spec" in child else ""
        for (kind, name), child in rendered().items()
    }

    assert made == {
        "ConfigMap/calculator-config": "",
        "PersistentVolumeClaim/calculator-weights": "",
        "PersistentVolumeClaim/calculator-bus": "",
        "PersistentVolumeClaim/calculator-checkpoints": "",
        "Service/calculator-bus": "",
        "Service/calculator-sampler": "",
        "Service/calculator-reward-server": "",
        "StatefulSet/calculator-bus": 1,
        "Deployment/calculator-sampler-whole": 4,
        "Deployment/calculator-sampler-slice": 0,
        "Deployment/calculator-environment": 1,
        "Deployment/calculator-reward-server-whole": 1,
        "Deployment/calculator-reward-server-slice": 0,
        "Job/calculator-trainer-whole": "",
    }


def test_a_pod_monitor_is_made_only_where_somebody_reads_it() -> None:
    assert ("PodMonitor", "calculator") not in rendered()
    assert ("PodMonitor", "calculator") in rendered(monitored=True)


@pytest.mark.parametrize(("age", "interval"), [(60, "30s"), (5, "2s"), (1, "1s")])
def test_a_pod_monitor_has_pods_read_twice_before_a_sample_counts_as_missing(age: int, interval: str) -> None:
    made = rendered(a_job({"scaling": {"maxMetricAgeSeconds": age}}), monitored=True)

    assert [one["interval"] for one in made["PodMonitor", "calculator"]["spec"]["podMetricsEndpoints"]] == [interval]


def test_the_same_input_gives_the_same_bytes() -> None:
    assert json.dumps(list(rendered().values())) == json.dumps(list(rendered().values()))


def test_everything_but_the_checkpoints_goes_with_the_job() -> None:
    unowned = {name for (_, name), child in rendered().items() if "ownerReferences" not in child["metadata"]}

    assert unowned == {"calculator-checkpoints"}
    deleting = a_job({"checkpoints": {"reclaim": "Delete"}})
    assert all("ownerReferences" in child["metadata"] for child in rendered(deleting).values())


def test_the_sampler_pod() -> None:
    sampler = rendered()["Deployment", "calculator-sampler-slice"]
    pod = pod_of(sampler)

    assert sampler["spec"]["strategy"] == {"type": "Recreate"}
    assert pod["metadata"]["annotations"]["steelyard.dev/gpus"] == "500m"
    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/name": "steelyard-worker",
        "app.kubernetes.io/managed-by": "steelyard",
        "steelyard.dev/job": "calculator",
        "steelyard.dev/stage": "sampler",
        "steelyard.dev/profile": "slice",
    }
    assert pod["spec"]["terminationGracePeriodSeconds"] == 330
    worker = worker_of(sampler)
    assert worker["command"] == ["python", "-m", "steelyard_workers.sampler"]
    assert worker["resources"]["limits"] == {"nvidia.com/gpu.shared": "1"}
    assert worker["lifecycle"]["preStop"]["exec"]["command"] == ["python", "-m", "steelyard_workers.drain"]
    assert worker["startupProbe"]["periodSeconds"] * worker["startupProbe"]["failureThreshold"] == 300
    assert {mount["mountPath"]: mount.get("readOnly", False) for mount in worker["volumeMounts"]} == {
        "/etc/steelyard": True,
        "/tmp": False,
        "/weights": True,
        "/dev/shm": False,
    }
    assert {entry["name"]: entry["value"] for entry in worker["env"] if "value" in entry} == {
        "HOME": "/tmp",
        "NATS_URL": "nats://calculator-bus:4222",
        "PORT": "8000",
        "SAMPLER_HOST": "calculator-sampler",
        "STEELYARD_CONFIG": "/etc/steelyard/job.json",
        "STEELYARD_MODEL": "/models/tiny",
        "STEELYARD_PROFILE": "slice",
        "STEELYARD_STAGE": "sampler",
        "STEELYARD_WEIGHTS": "/weights",
    }


def test_the_trainer_ends_with_codes_that_mean_something() -> None:
    trainer = rendered()["Job", "calculator-trainer-whole"]["spec"]

    assert [
        (rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in trainer["podFailurePolicy"]["rules"]
    ] == [
        ("FailJob", [64]),
        ("Ignore", [75]),
        ("Ignore", None),
    ]
    assert (trainer["completionMode"], trainer["completions"], trainer["podReplacementPolicy"]) == (
        "Indexed",
        1,
        "Failed",
    )
    mounts = {mount["mountPath"] for mount in trainer["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert {"/tasks", "/weights", "/checkpoints"} <= mounts


def test_a_model_in_a_claim_is_mounted_where_workers_look_for_it() -> None:
    job = a_job({"model": {"claim": {"name": "models", "subPath": "tiny"}}})
    worker = worker_of(rendered(job)["Deployment", "calculator-sampler-whole"])

    assert {"name": "model", "mountPath": "/model", "subPath": "tiny", "readOnly": True} in worker["volumeMounts"]
    assert {"name": "STEELYARD_MODEL", "value": "/model"} in worker["env"]


def test_the_users_modules_are_on_the_python_path() -> None:
    job = a_job({"code": {"configMap": {"name": "my-code"}}})

    for name in ("calculator-environment", "calculator-reward-server-whole"):
        assert {"name": "PYTHONPATH", "value": "/code"} in worker_of(rendered(job)["Deployment", name])["env"]


def test_every_acknowledged_message_is_on_disk() -> None:
    config = rendered()["ConfigMap", "calculator-config"]["data"]["nats.conf"]

    assert "sync_interval: always" in config
    assert "max_payload: 8MB" in config
    assert f"max_file_store: {int(10 * 2**30 * 0.8)}" in config


def test_workers_read_the_whole_spec_with_defaults() -> None:
    content = json.loads(rendered()["ConfigMap", "calculator-config"]["data"]["job.json"])

    assert (content["name"], content["namespace"]) == ("calculator", "default")
    assert content["spec"]["algorithm"]["groupSize"] == 8
    assert content["spec"]["stages"]["environment"]["entrypoint"] == "calculator:environment"
    AgenticRLJob.model_validate({"metadata": {"name": content["name"]}, "spec": content["spec"]})


@pytest.mark.parametrize(
    "child",
    [child for child in rendered().values() if "template" in child.get("spec", {})],
    ids=lambda c: c["metadata"]["name"],
)
def test_every_pod_keeps_to_the_restricted_security_standard(child: Manifest) -> None:
    pod = pod_of(child)["spec"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_the_longest_names_fit_a_label_and_a_hostname() -> None:
    """ray-project/kuberay#3980: a long name must not fail somewhere below, for ever."""
    job = a_job(
        {"stages.trainer.gpuProfiles": [{"name": "p" * 12, "resources": {"nvidia.com/gpu": 1}, "gpus": 1}]},
        name="j" * 40,
    )
    made = rendered(job, {**REPLICAS, (Stage.TRAINER, "p" * 12): 1, (Stage.TRAINER, "whole"): 0})

    for (kind, name), child in made.items():
        assert kind != "Service" or len(name) <= 63
        assert kind != "Job" or len(f"{name}-0") <= 63
        assert all(len(value) <= 63 for value in child["metadata"]["labels"].values())


CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a rescale, the budget and the scaling write no template": (
        {"stages.sampler.replicas.max": 9, "budget.gpus": 9, "scaling": {"mode": "Observe"}, "suspend": True},
        {"calculator-config"},
    ),
    "engine arguments restart samplers": (
        {"stages.sampler.engine": {"args": ["--max-model-len", "64"]}},
        {"calculator-config", "calculator-sampler-whole", "calculator-sampler-slice"},
    ),
    "an image restarts its stage": (
        {"stages.environment.image": "mine:2"},
        {"calculator-config", "calculator-environment"},
    ),
    "a longer run, another learning rate, bounds and checkpoints restart the trainer alone": (
        {
            "algorithm": {"steps": 400, "args": {"learningRate": "1e-5"}},
            "checkpoints.everySteps": 2,
            "buffer": {"maxTrajectories": 8192},
            "tracing": {"retentionSeconds": 3600},
        },
        {"calculator-config", "calculator-trainer-whole"},
    ),
    "how far a policy may lag is for those who serve it and for the trainer": (
        {"algorithm.maxStaleness": 3},
        {"calculator-config", "calculator-trainer-whole", "calculator-sampler-whole", "calculator-sampler-slice"},
    ),
    "the user's code is not in the samplers": (
        {"code": {"configMap": {"name": "mine"}}},
        {
            "calculator-config",
            "calculator-trainer-whole",
            "calculator-environment",
            "calculator-reward-server-whole",
            "calculator-reward-server-slice",
        },
    ),
    "what becomes of checkpoints later restarts nobody": (
        {"checkpoints.reclaim": "Delete"},
        {"calculator-config", "calculator-checkpoints"},
    ),
    "a written default is no change": ({"algorithm": {"groupSize": 8}}, set()),
    "a template restarts its stage": (
        {"stages.rewardServer.template": {"spec": {"nodeSelector": {"pool": "gpu"}}}},
        {"calculator-config", "calculator-reward-server-whole", "calculator-reward-server-slice"},
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_change_of_the_spec_writes_again(case: str) -> None:
    change, want = CHANGES[case]
    before, after = digests(rendered()), digests(rendered(a_job(change)))

    assert {name for name in after if before.get(name) != after[name]} == want
