"""The Deployment of one stage and GPU profile."""

from __future__ import annotations

from steelyard.api import AgenticRLJob
from steelyard.children.common import Images, Manifest, Slot, child, pod_labels, selector, workload_name
from steelyard.children.pods import Worker, pod_template, template_inputs

ROLLING: Manifest = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
ONE_AFTER_THE_OTHER: Manifest = {"type": "Recreate"}
"""A rolling update starts the next pod while the last one drains, which would break the GPU budget."""


def deployment(job: AgenticRLJob, slot: Slot, worker: Worker, replicas: int | None, images: Images) -> Manifest:
    stage, profile = slot
    takes_gpus = job.spec.gpu_prices[stage][profile] > 0
    inputs = template_inputs(job, slot, images.of(job, stage))
    spec: Manifest = {
        **({} if replicas is None else {"replicas": replicas}),
        "revisionHistoryLimit": 2,
        "selector": {"matchLabels": selector(job, stage.value, profile)},
        "strategy": ONE_AFTER_THE_OTHER if takes_gpus else ROLLING,
        "template": pod_template(job, slot, worker, inputs),
    }
    return child(
        job,
        "apps/v1",
        "Deployment",
        workload_name(job.metadata.name, stage, profile),
        {"spec": spec},
        inputs=inputs,
        labels=pod_labels(job, stage.value, profile),
    )
