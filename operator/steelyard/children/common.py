"""What all children have in common: names, labels, owner, the digest that says when a child must be written again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.api import AgenticRLJob, Stage
from steelyard.api.names import (
    API_VERSION,
    APP_WORKER,
    BUS,
    DEFAULT_PROFILE,
    GROUP,
    JOB_KIND,
    LABEL_APP,
    LABEL_JOB,
    LABEL_MANAGED_BY,
    LABEL_PROFILE,
    LABEL_STAGE,
    MANAGED_BY,
)

Manifest = dict[str, Any]
Slot = tuple[Stage, str]
"""A stage and one of its GPU profiles: what has a number of replicas."""

ANNOTATION_DIGEST = f"{GROUP}/digest"
"""On children: digest of all that they were rendered from, replicas apart."""
ANNOTATION_CONFIG = f"{GROUP}/config"
"""On pods: digest of the part of the job's configuration that this worker reads; another value restarts it."""
ANNOTATION_GPUS = f"{GROUP}/gpus"
"""On pods: what the pod takes from the budget, whatever the spec says since."""
ANNOTATION_IMAGES = f"{GROUP}/images"
"""On the ConfigMap: the operator's default images at the job's start or last resume."""

HTTP_PORT = 8000
NATS = "nats"
"""Key of the bus' own image beside those of the stages."""
EXPORTER = "exporter"
"""Key of the image of the bus' exporter, where it is not the environment's."""
IMAGE_ROLES = (*(stage.value for stage in Stage), NATS)


@dataclass(frozen=True)
class Images:
    """Default images, by stage value and `nats`; what a job's spec names goes first."""

    by_role: Mapping[str, str]

    def of(self, job: AgenticRLJob, stage: Stage) -> str:
        return job.spec.stage(stage).image or self.by_role[stage.value]

    @property
    def nats(self) -> str:
        return self.by_role[NATS]

    @property
    def exporter(self) -> str:
        return self.by_role.get(EXPORTER, self.by_role[Stage.ENVIRONMENT.value])

    def to_json(self) -> str:
        return json.dumps(dict(self.by_role), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Images | None:
        """What `to_json` wrote; None when a hand spoiled it."""
        try:
            roles = json.loads(text)
            return cls({role: str(roles[role]) for role in (*IMAGE_ROLES, *({EXPORTER} & roles.keys()))})
        except (ValueError, KeyError, TypeError):
            return None


def workload_kind(stage: Stage) -> str:
    """A trainer ends with an exit code that means something, so it is a Job."""
    return "Job" if stage is Stage.TRAINER else "Deployment"


def workload_name(job: str, stage: Stage, profile: str) -> str:
    if stage is Stage.ENVIRONMENT and profile == DEFAULT_PROFILE:
        return f"{job}-{stage.value}"
    return f"{job}-{stage.value}-{profile}"


def service_name(job: str, stage: Stage) -> str:
    return f"{job}-{stage.value}"


def bus_name(job: str) -> str:
    return f"{job}-bus"


def config_name(job: str) -> str:
    return f"{job}-config"


def weights_name(job: str) -> str:
    return f"{job}-weights"


def checkpoints_name(job: str) -> str:
    return f"{job}-checkpoints"


def job_labels(job: AgenticRLJob) -> dict[str, str]:
    return {LABEL_APP: APP_WORKER, LABEL_MANAGED_BY: MANAGED_BY, LABEL_JOB: job.metadata.name}


def pod_labels(job: AgenticRLJob, stage: str, profile: str = DEFAULT_PROFILE) -> dict[str, str]:
    return {**job_labels(job), LABEL_STAGE: stage, LABEL_PROFILE: profile}


def selector(job: AgenticRLJob, stage: str, profile: str | None = None) -> dict[str, str]:
    chosen = {LABEL_JOB: job.metadata.name, LABEL_STAGE: stage}
    return chosen if profile is None else {**chosen, LABEL_PROFILE: profile}


def owner_reference(job: AgenticRLJob) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child(
    job: AgenticRLJob,
    api_version: str,
    kind: str,
    name: str,
    body: Manifest,
    *,
    inputs: Any,
    labels: Mapping[str, str] | None = None,
    owned: bool = True,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """One child. `inputs` is all it was rendered from: the child is written again only when they change,

    so that an operator with other templates leaves a running job as it is.
    """
    metadata: Manifest = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": dict(labels or job_labels(job)),
        "annotations": {**(annotations or {}), ANNOTATION_DIGEST: digest(inputs)},
    }
    if owned:
        metadata["ownerReferences"] = [owner_reference(job)]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def digest(value: Any) -> str:
    """Equal values give equal digests, in any process and version."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def bus_labels(job: AgenticRLJob) -> dict[str, str]:
    return pod_labels(job, BUS)
