"""The reward server: scores trajectories from the bus and over HTTP with the user's callable."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.common import Images, Manifest, Slot
from steelyard.children.deployments import deployment
from steelyard.children.pods import Worker, code_mounts, model_mounts


def reward_server(job: AgenticRLJob, profile: str, replicas: int | None, images: Images) -> Manifest:
    mounts = (*model_mounts(job), *code_mounts(job))  # the model to decode what was said
    worker = Worker(Stage.REWARD_SERVER, "steelyard_workers.reward", mounts)
    slot: Slot = (Stage.REWARD_SERVER, profile)
    return deployment(job, slot, worker, replicas, images)
