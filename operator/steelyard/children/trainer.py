"""The trainer: an Indexed Job with one rank, whose exit codes decide what happens next."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.common import Images, Manifest, Slot, child, pod_labels, workload_name
from steelyard.children.pods import (
    Worker,
    checkpoints_mount,
    code_mounts,
    model_mounts,
    pod_template,
    task_mounts,
    template_inputs,
    weights_mount,
)
from steelyard.children.template import WORKER

USER_ERROR = 64
STOPPED = 75
PATIENCE = 1_000_000
"""A trainer that dies resumes from its checkpoint, as often as it takes."""

FAILURE_POLICY: Manifest = {
    "rules": [
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": WORKER, "operator": "In", "values": [USER_ERROR]},
        },
        {"action": "Ignore", "onExitCodes": {"containerName": WORKER, "operator": "In", "values": [STOPPED]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
}


def trainer(job: AgenticRLJob, profile: str, images: Images) -> Manifest:
    """Rendered only while the trainer has a replica: a Job without pods would be a finished one."""
    slot: Slot = (Stage.TRAINER, profile)
    mounts = (
        *model_mounts(job),
        *task_mounts(job),
        *code_mounts(job),
        weights_mount(job, read_only=False),
        checkpoints_mount(job),
    )
    inputs = template_inputs(job, slot, images.of(job, Stage.TRAINER))
    worker = Worker(Stage.TRAINER, "steelyard_workers.trainer", mounts, drains=False, pod={"restartPolicy": "Never"})
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": PATIENCE,
        "podFailurePolicy": FAILURE_POLICY,
        "podReplacementPolicy": "Failed",  # never two trainers at once
        "template": pod_template(job, slot, worker, inputs),
    }
    return child(
        job,
        "batch/v1",
        "Job",
        workload_name(job.metadata.name, Stage.TRAINER, profile),
        {"spec": spec},
        inputs=inputs,
        labels=pod_labels(job, Stage.TRAINER.value, profile),
    )
