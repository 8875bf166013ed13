"""Pure: a job, its images and the replicas of this moment -> the manifests of everything it is made of.

The same input gives the same bytes. Whatever a job has and this does not name is removed, its claims apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.bus import bus, bus_service
from steelyard.children.common import Images, Manifest, Slot
from steelyard.children.environment import environment
from steelyard.children.monitor import pod_monitor
from steelyard.children.reward_server import reward_server
from steelyard.children.sampler import sampler
from steelyard.children.services import headless
from steelyard.children.storage import claims, config_map
from steelyard.children.trainer import trainer

__all__ = ["children", "remains"]

_DEPLOYMENTS = {Stage.SAMPLER: sampler, Stage.ENVIRONMENT: environment, Stage.REWARD_SERVER: reward_server}


def children(
    job: AgenticRLJob, replicas: Mapping[Slot, int | None], bus_replicas: int, images: Images, *, monitored: bool
) -> tuple[Manifest, ...]:
    """Everything of a job that is not finished. Every profile has its Deployment, if need be without replicas.

    Replicas None: somebody else owns their number.
    """
    return (
        config_map(job, images),
        *claims(job),
        bus_service(job),
        headless(job, Stage.SAMPLER),
        headless(job, Stage.REWARD_SERVER),
        *((pod_monitor(job),) if monitored else ()),
        bus(job, bus_replicas, images),
        *(
            _DEPLOYMENTS[stage](job, profile, n, images)
            for (stage, profile), n in replicas.items()
            if stage in _DEPLOYMENTS
        ),
        *(trainer(job, profile, images) for (stage, profile), n in replicas.items() if stage is Stage.TRAINER and n),
    )


def remains(job: AgenticRLJob, images: Images) -> tuple[Manifest, ...]:
    """What a finished job keeps beside its ended trainer: results and how they came about."""
    return (config_map(job, images), *claims(job))
