"""The environment: drives episodes against the samplers with the user's tools."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.common import Images, Manifest, Slot
from steelyard.children.deployments import deployment
from steelyard.children.pods import Worker, code_mounts, model_mounts


def environment(job: AgenticRLJob, profile: str, replicas: int | None, images: Images) -> Manifest:
    mounts = (*model_mounts(job), *code_mounts(job))  # the model for its tokenizer
    worker = Worker(Stage.ENVIRONMENT, "steelyard_workers.environment", mounts)
    slot: Slot = (Stage.ENVIRONMENT, profile)
    return deployment(job, slot, worker, replicas, images)
