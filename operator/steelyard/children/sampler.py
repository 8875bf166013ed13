"""The sampler: vLLM behind a headless Service, one Deployment per GPU profile."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.common import Images, Manifest, Slot
from steelyard.children.deployments import deployment
from steelyard.children.pods import Mount, Worker, model_mounts, weights_mount

SHARED_MEMORY = Mount("shm", "/dev/shm", {"emptyDir": {"medium": "Memory"}}, read_only=False)  # noqa: S108
"""vLLM's processes exchange tensors through it; the container runtime's own 64 MiB are too small."""


def sampler(job: AgenticRLJob, profile: str, replicas: int | None, images: Images) -> Manifest:
    mounts = (*model_mounts(job), weights_mount(job, read_only=True), SHARED_MEMORY)
    worker = Worker(Stage.SAMPLER, "steelyard_workers.sampler", mounts)
    slot: Slot = (Stage.SAMPLER, profile)
    return deployment(job, slot, worker, replicas, images)
