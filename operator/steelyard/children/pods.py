"""The pod that every worker runs in: restricted security, one contract of environment variables, probes and drain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.api import AgenticRLJob, GpuProfile, Stage, format_quantity
from steelyard.children.common import (
    ANNOTATION_CONFIG,
    ANNOTATION_GPUS,
    HTTP_PORT,
    Manifest,
    Slot,
    bus_name,
    checkpoints_name,
    config_name,
    digest,
    pod_labels,
    service_name,
    weights_name,
)
from steelyard.children.template import WORKER, merged

USER = 65532
STARTUP_SECONDS = 300
STARTUP_PERIOD_SECONDS = 2
GRACE_SECONDS = 30
"""What a pod gets on top of its drain to stop."""

CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}

_PLAYED_OR_SCORED = ("model", "code", "tracing.samplePercent")
_READ: Mapping[Stage, Sequence[str]] = {
    Stage.SAMPLER: ("model", "algorithm.maxStaleness"),
    Stage.ENVIRONMENT: _PLAYED_OR_SCORED,
    Stage.REWARD_SERVER: _PLAYED_OR_SCORED,
    Stage.TRAINER: ("model", "tasks", "code", "algorithm", "checkpoints.everySteps", "buffer", "tracing"),
}
"""What a stage's pods need of the spec, beside their own stage's part: another value restarts them. The bounds of the
buffers are the trainer's to set, for all."""
_NOT_READ = ("replicas", "gpuProfiles", "template", "image", "priorityClassName", "drainSeconds")


@dataclass(frozen=True)
class Mount:
    """A volume and where the worker finds it."""

    name: str
    path: str
    source: Manifest
    read_only: bool = True
    sub_path: str | None = None

    @property
    def volume(self) -> Manifest:
        return {"name": self.name, **self.source}

    @property
    def mount(self) -> Manifest:
        extra: Manifest = {"subPath": self.sub_path} if self.sub_path else {}
        return {"name": self.name, "mountPath": self.path, **extra, **({"readOnly": True} if self.read_only else {})}


@dataclass(frozen=True)
class Worker:
    """What one stage adds to the common pod."""

    stage: Stage
    module: str
    mounts: Sequence[Mount]
    drains: bool = True
    """Whether a preStop hook lets it finish or hand back its work; the trainer commits on SIGTERM instead."""
    pod: Manifest = field(default_factory=dict)
    """Further fields of the pod's spec."""


def pod_template(job: AgenticRLJob, slot: Slot, worker: Worker, inputs: Manifest) -> Manifest:
    """The pod template of a worker, the user's own template merged over it; `inputs` are its `template_inputs`."""
    stage, profile = slot
    spec = job.spec.stage(stage)
    mounts = (config_mount(job), scratch(), *worker.mounts)
    container: Manifest = {
        "name": WORKER,
        "image": inputs["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", worker.module],
        "env": environment(job, slot, mounts),
        "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": {
            **_probe("/healthz"),
            "periodSeconds": STARTUP_PERIOD_SECONDS,
            "failureThreshold": STARTUP_SECONDS // STARTUP_PERIOD_SECONDS,
        },
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "failureThreshold": 3},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount.mount for mount in mounts],
    }
    if worker.drains:
        container["lifecycle"] = {"preStop": {"exec": {"command": ["python", "-m", "steelyard_workers.drain"]}}}
    if resources := _resources(gpu_profile(job, slot)):
        container["resources"] = {"limits": resources, "requests": resources}
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": spec.drain_seconds + GRACE_SECONDS,
        "containers": [container],
        "volumes": [mount.volume for mount in mounts],
        **worker.pod,
    }
    if spec.priority_class_name:
        pod["priorityClassName"] = spec.priority_class_name
    metadata = {
        "labels": pod_labels(job, stage.value, profile),
        "annotations": {
            ANNOTATION_CONFIG: inputs["config"],
            ANNOTATION_GPUS: format_quantity(spec.profiles[profile]),
        },
    }
    return merged({"metadata": metadata, "spec": pod}, spec.template)


def environment(job: AgenticRLJob, slot: Slot, mounts: Iterable[Mount]) -> list[Manifest]:
    """The variables of the worker process contract."""
    stage, profile = slot
    name = job.metadata.name
    paths = {mount.name: mount.path for mount in mounts}
    values = {
        "HOME": "/tmp",  # noqa: S108 - the only writable folder, the pod's own
        "NATS_URL": f"nats://{bus_name(name)}:4222",
        "PORT": str(HTTP_PORT),
        "SAMPLER_HOST": service_name(name, Stage.SAMPLER),
        "STEELYARD_CONFIG": "/etc/steelyard/job.json",
        "STEELYARD_MODEL": job.spec.model.path or "/model",
        "STEELYARD_PROFILE": profile,
        "STEELYARD_STAGE": stage.value,
    }
    values |= {f"STEELYARD_{key.upper()}": paths[key] for key in ("checkpoints", "tasks", "weights") if key in paths}
    if "code" in paths:
        values["PYTHONPATH"] = paths["code"]
    return [*identity(), *({"name": key, "value": value} for key, value in sorted(values.items()))]


def identity() -> list[Manifest]:
    """Who the pod is, from the downward API."""
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def gpu_profile(job: AgenticRLJob, slot: Slot) -> GpuProfile | None:
    stage, profile = slot
    return next((found for found in job.spec.stage(stage).gpu_profiles if found.name == profile), None)


def template_inputs(job: AgenticRLJob, slot: Slot, image: str) -> Manifest:
    """All that a worker's pod template depends on.

    `config` is the digest of what the worker reads. Bounds, budget and other stages are not part of it: a rescale
    restarts nobody, and a longer run the trainer alone.
    """
    stage, profile = slot
    spec = spec_values(job)
    own = spec["stages"].get(stage.field, {})
    read = {key: value for key, value in own.items() if key not in _NOT_READ}
    chosen = gpu_profile(job, slot)
    return {
        "config": digest({"stage": read, **{path: _found(spec, path) for path in _READ[stage]}}),
        "image": image,
        "profile": [profile, chosen.to_dict() if chosen else None],
        "stage": {key: own.get(key) for key in ("template", "priorityClassName", "drainSeconds")},
        "owner": job.metadata.uid,
    }


def spec_values(job: AgenticRLJob) -> Manifest:
    """What the user asked for, without defaults: a default that a later version adds is no change of the user's."""
    values: Manifest = job.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return values


def _found(spec: Manifest, path: str) -> Any:
    value: Any = spec
    for key in path.split("."):
        value = (value or {}).get(key)
    return value


def config_mount(job: AgenticRLJob) -> Mount:
    return Mount("config", "/etc/steelyard", {"configMap": {"name": config_name(job.metadata.name)}})


def scratch() -> Mount:
    return Mount("tmp", "/tmp", {"emptyDir": {}}, read_only=False)  # noqa: S108 - the pod's own


def model_mounts(job: AgenticRLJob) -> tuple[Mount, ...]:
    """The policy to start from; nothing when it lies in the image or in a volume of the user's template."""
    if (claim := job.spec.model.claim) is None:
        return ()
    return (Mount("model", "/model", _claim(claim.name), sub_path=claim.sub_path),)


def task_mounts(job: AgenticRLJob) -> tuple[Mount, ...]:
    return _files("tasks", job.spec.tasks)


def code_mounts(job: AgenticRLJob) -> tuple[Mount, ...]:
    return _files("code", job.spec.code) if job.spec.code else ()


def weights_mount(job: AgenticRLJob, *, read_only: bool) -> Mount:
    return Mount("weights", "/weights", _claim(weights_name(job.metadata.name)), read_only=read_only)


def checkpoints_mount(job: AgenticRLJob) -> Mount:
    return Mount("checkpoints", "/checkpoints", _claim(checkpoints_name(job.metadata.name)), read_only=False)


def _files(name: str, source: Any) -> tuple[Mount, ...]:
    if source.claim:
        return (Mount(name, f"/{name}", _claim(source.claim.name), sub_path=source.claim.sub_path),)
    return (Mount(name, f"/{name}", {"configMap": {"name": source.config_map.name}}),)


def _claim(name: str) -> Manifest:
    return {"persistentVolumeClaim": {"claimName": name}}


def _resources(profile: GpuProfile | None) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in sorted(profile.resources.items())} if profile else {}


def _probe(path: str) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5}
