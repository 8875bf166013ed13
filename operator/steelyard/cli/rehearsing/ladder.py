"""The rungs of a rehearsal: the user's job, made small enough to say what one more step of load brings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from steelyard.api import AgenticRLJob, Stage
from steelyard.api.names import API_VERSION, GROUP, JOB_KIND, MAX_JOB_NAME

LABEL_REHEARSAL = f"{GROUP}/rehearsal"
"""On the jobs of a rehearsal: the job that is rehearsed."""
ANNOTATION_SEEN = f"{GROUP}/rehearsal-seen"
"""When its rehearsal last looked at it; one that was not looked at for long is a leftover."""
ANNOTATION_BY = f"{GROUP}/rehearsal-by"

MOST_STEPS = 1000
"""Training steps of a rung. Its end is decided from outside, while the bus still has the spans; one that nobody looks
after any more gives its GPUs back all the same."""
DRAIN_SECONDS = 10
SMALL_PROMPTS, SMALL_GROUP = 4, 4


@dataclass(frozen=True)
class Rung:
    """One short job."""

    title: str
    steps: int
    """Training steps after which enough is known."""
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def ladder(spec: Mapping[str, Any], job: AgenticRLJob, namespace: str) -> tuple[Rung, ...]:
    """One task, a few at once, everything at once. `spec` is the job's as the user wrote it, `job` the same parsed."""
    algorithm = job.spec.algorithm
    group, prompts = min(algorithm.group_size, SMALL_GROUP), min(algorithm.prompts_per_step, SMALL_PROMPTS)
    sizes: tuple[tuple[str, int, dict[str, int], int | None], ...] = (
        ("one task", 2, {"groupSize": 2, "promptsPerStep": 1, "maxStaleness": 0}, 2),
        ("a few at once", 3, {"groupSize": group, "promptsPerStep": prompts}, group * prompts),
        ("all stages", 5, {}, None),
    )
    return tuple(
        Rung(title, steps, _manifest(spec, job, namespace, number, changes, most, steps))
        for number, (title, steps, changes, most) in enumerate(sizes, start=1)
    )


def _manifest(
    spec: Mapping[str, Any],
    job: AgenticRLJob,
    namespace: str,
    number: int,
    algorithm: Mapping[str, Any],
    episodes: int | None,
    steps: int,
) -> dict[str, Any]:
    """The job of a rung. With `episodes` every stage has one replica, else what the job starts with."""
    own = deepcopy(dict(spec))
    own["suspend"] = False
    own["algorithm"] = {**own.get("algorithm", {}), **algorithm, "steps": MOST_STEPS}
    every = min(job.spec.checkpoints.every_steps, steps)
    own["checkpoints"] = {**own.get("checkpoints", {}), "everySteps": every, "reclaim": "Delete"}
    own["tracing"] = {**own.get("tracing", {}), "samplePercent": 100}
    own["scaling"] = {**own.get("scaling", {})}
    own["scaling"].pop("pin", None)
    for stage in Stage:
        of = own["stages"].setdefault(stage.field, {})
        of["drainSeconds"] = min(job.spec.stage(stage).drain_seconds, DRAIN_SECONDS)
        if episodes is not None:
            of["replicas"] = {"min": 1, "max": 1}
    if episodes is not None:
        environment = own["stages"][Stage.ENVIRONMENT.field]
        environment["concurrency"] = min(job.spec.stages.environment.concurrency, episodes)
        own.pop("planning", None)
        own["scaling"].pop("fixed", None)
    if episodes is not None or job.spec.scaling.mode != "Fixed":
        own["scaling"]["mode"] = "Observe"
    metadata = {
        "name": rung_name(job.metadata.name, number),
        "namespace": namespace,
        "labels": {LABEL_REHEARSAL: job.metadata.name},
    }
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": metadata, "spec": own}


def rung_name(job: str, number: int) -> str:
    suffix = f"-rehearsal-{number}"
    return job[: MAX_JOB_NAME - len(suffix)].rstrip("-") + suffix
