"""Pure: one job as it is and its active revision -> the manifests it shall consist of now.

The decisions of a job's life meet here: finished, stopping or running, which images, how far a move may go this time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.balance.types import Instant
from steelyard.children import children, remains
from steelyard.children.common import ANNOTATION_DIGEST, EXPORTER, Images, Manifest, Slot, config_name, digest
from steelyard.children.lifecycle import Goal, running, stopping
from steelyard.children.pods import template_inputs
from steelyard.children.rollout import Workload, rollout
from steelyard.children.trainer import trainer
from steelyard.cluster.quota import Means
from steelyard.cluster.view import View, gpus_held, slots, stage_pods, workloads


@dataclass(frozen=True, slots=True)
class Ending:
    """A job that is over: completed, or failed for good."""

    complete: bool
    message: str
    profiles: tuple[str, ...]
    """Profiles of the trainer whose Job is still there to say so."""


def render(
    view: View,
    job: AgenticRLJob,
    allocation: Allocation,
    images: Images,
    ended: Ending | None,
    means: Means,
    instant: Instant,
) -> tuple[Manifest, ...]:
    """What the job shall consist of at this moment; nothing here depends on what was rendered before.

    `job` is as its user wrote it: what its pool lends is in `means`, so that children are not written anew for it.
    """
    if ended:
        return (*remains(job, images), *(trainer(job, profile, images) for profile in ended.profiles))
    now, held = workloads(view, job), view.held(job)
    goal = _goal(view, allocation, now, stop=job.spec.suspend or means.waits)
    target = {slot: now[slot].desired if slot[0] in held else goal.replicas.get(slot, 0) for slot in now}
    for slot in now:
        if (most := view.startable(slot, instant)) is not None:
            target[slot] = min(target[slot], most)
    all_prices = job.spec.gpu_prices
    prices = {(stage, profile): all_prices[stage][profile] for stage, profile in now}
    replicas = rollout(target, now, prices, means.budget, gpus_held(view.pods))
    written = {slot: None if slot[0] in held and not _ours(view, slot) else n for slot, n in replicas.items()}
    return children(job, written, goal.bus, images, monitored=view.monitored)


def frozen_images(view: View, job: AgenticRLJob, defaults: Images) -> Images:
    """The images the job was started with: a stage's until a change of the spec restarts that stage, those of the bus
    until the job is suspended and all its pods are gone.
    """
    kept = kept_images(view, job)
    if kept is None or (job.spec.suspend and not view.pods):
        return defaults
    changed = {slot[0].value for slot in slots(job) if asks_for_other_pods(view, job, slot, kept)}
    by_role = {role: (defaults if role in changed else kept).by_role[role] for role in kept.by_role}
    if by_role[Stage.ENVIRONMENT.value] != kept.exporter:  # another image restarts the bus, for which all would wait
        by_role[EXPORTER] = kept.exporter
    return Images(by_role)


def kept_images(view: View, job: AgenticRLJob) -> Images | None:
    """The images that the job's ConfigMap says it was started with."""
    config = view.children.get(("ConfigMap", config_name(job.metadata.name)))
    return Images.from_json(config.images) if config and config.images else None


def asks_for_other_pods(view: View, job: AgenticRLJob, slot: Slot, images: Images) -> bool:
    """Whether the pods of a workload that is there were made for something else than what the job says."""
    child = view.workload(slot)
    inputs = template_inputs(job, slot, images.of(job, slot[0]))
    return child is not None and child.digest is not None and child.digest != digest(inputs)


def ending(view: View, job: AgenticRLJob, images: Images) -> Ending | None:
    """How the job ended, if it did and the user has asked for nothing else since."""
    for stage, profile in slots(job):
        child = view.workload((stage, profile))
        if stage is not Stage.TRAINER or child is None or child.outcome is None or child.deleting:
            continue
        complete = child.outcome == "Complete"
        if not complete and job.spec.suspend:
            continue  # to suspend a failed job is how to start it again
        if child.digest == trainer(job, profile, images)["metadata"]["annotations"][ANNOTATION_DIGEST]:
            return Ending(complete, child.message, (profile,))
    return Ending(complete=True, message="", profiles=()) if _was_completed(view) else None


def _was_completed(view: View) -> bool:
    """Completion is for ever, even if its Job was removed, unless the user changes the spec."""
    said = view.job.status.condition("Complete")
    if said is None or said.status != "True" or said.observed_generation != view.job.metadata.generation:
        return False
    return not any(child.kind == "Job" for child in view.children.values())


def _goal(view: View, allocation: Allocation, now: Mapping[Slot, Workload], *, stop: bool) -> Goal:
    desired = {slot: workload.desired for slot, workload in now.items()}
    if not stop:
        wanted = {(stage, profile): n for stage, profile, n in allocation.entries()}
        return running(wanted, desired, bus_ready=view.bus_ready)
    return stopping(desired, _pods_by_stage(view), view.bus_desired)


def _pods_by_stage(view: View) -> dict[Stage, int]:
    pods: Sequence[str] = [pod.stage for pod in stage_pods(view)]
    return {stage: pods.count(stage.value) for stage in Stage}


def _ours(view: View, slot: Slot) -> bool:
    """Whether we ever wrote these replicas: to leave them out then would reset them to one."""
    child = view.workload(slot)
    return child is not None and child.owns_replicas
