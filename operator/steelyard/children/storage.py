"""What outlives pods: the job's configuration and its claims."""

from __future__ import annotations

import json

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.bus import CONFIG_KEY, nats_config
from steelyard.children.common import (
    ANNOTATION_IMAGES,
    Images,
    Manifest,
    bus_name,
    checkpoints_name,
    child,
    config_name,
    weights_name,
)
from steelyard.children.pods import spec_values

NOT_FOR_WORKERS = ("suspend", "scaling", "planning", "pool")


def config_map(job: AgenticRLJob, images: Images) -> Manifest:
    """What workers read. It also keeps the images the job was started with: see `frozen_images`."""
    worker_spec = {key: value for key, value in job.spec.to_dict().items() if key not in NOT_FOR_WORKERS}
    for stage in Stage:
        worker_spec["stages"][stage.field].pop("template", None)
    content = {
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "uid": job.metadata.uid,
        "spec": worker_spec,
    }
    data = {"job.json": json.dumps(content, sort_keys=True) + "\n", CONFIG_KEY: nats_config(job)}
    return child(
        job,
        "v1",
        "ConfigMap",
        config_name(job.metadata.name),
        {"data": data},
        inputs=config_inputs(job, images),
        annotations={ANNOTATION_IMAGES: images.to_json()},
    )


def config_inputs(job: AgenticRLJob, images: Images) -> list[object]:
    """All that the ConfigMap is rendered from."""
    asked = {key: value for key, value in spec_values(job).items() if key not in NOT_FOR_WORKERS}
    return [job.metadata.uid, asked, images.to_json()]


def claims(job: AgenticRLJob) -> tuple[Manifest, ...]:
    """Weights and bus go with the job; checkpoints have no owner and stay, unless the user wants them deleted."""
    name = job.metadata.name
    return (
        _claim(job, weights_name(name), "ReadWriteMany"),
        _claim(job, bus_name(name), "ReadWriteOnce"),
        _claim(job, checkpoints_name(name), "ReadWriteOnce", owned=job.spec.checkpoints.reclaim == "Delete"),
    )


def _claim(job: AgenticRLJob, name: str, access: str, *, owned: bool = True) -> Manifest:
    storage = job.spec.checkpoints.storage
    spec: Manifest = {
        "accessModes": [access],
        "resources": {"requests": {"storage": str(storage.size)}},
    }
    if storage.storage_class_name:
        spec["storageClassName"] = storage.storage_class_name
    return child(
        job, "v1", "PersistentVolumeClaim", name, {"spec": spec}, inputs=[storage.to_dict(), owned], owned=owned
    )
