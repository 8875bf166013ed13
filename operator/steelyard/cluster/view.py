"""One job as the operator sees it at one moment, and how that reads in the words of the balance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from steelyard.api import AgenticRLJob, AllocationRevision, Stage
from steelyard.api.names import BUS
from steelyard.balance.outage import up_since
from steelyard.balance.purse import requests
from steelyard.balance.types import PodView, Seen, StageCounts
from steelyard.children.common import Slot, bus_name, workload_kind, workload_name
from steelyard.children.rollout import Workload
from steelyard.cluster.pool_records import Pool
from steelyard.cluster.records import Child, Job, JobKey, Pod
from steelyard.cluster.resource_quota import Left

STAGES = {stage.value: stage for stage in Stage}

FAILED_KEPT = 3
"""Pods of a Deployment that failed and stay to be looked at; a ReplicaSet would pile up thousands."""
FAILED_REST_SECONDS = 300.0
"""So long no more are asked for where so many failed: a ReplicaSet replaces failed pods at once and without end."""
CAREFUL_SECONDS = 2 * FAILED_REST_SECONDS
"""So long after a failure replicas start one after the other: device plug-ins confuse fractions that start at once."""


@dataclass(frozen=True)
class View:
    """Frozen: whatever happens while a tick works on it shows in the next tick."""

    job: Job
    revisions: tuple[AllocationRevision, ...]
    """The job's ledger, oldest first."""
    children: Mapping[tuple[str, str], Child]
    """By kind and name."""
    pods: tuple[Pod, ...]
    autoscaled: frozenset[str]
    """Deployments of this namespace whose replicas a HorizontalPodAutoscaler owns."""
    monitored: bool
    """Whether the cluster knows PodMonitors."""
    left: Left = field(default_factory=dict)
    """What the ResourceQuotas of the namespace still admit."""
    pool: Pool | None = None
    """The pool that the job names, if there is one of this name."""
    pooling: bool = True
    """Whether this operator shares pools at all."""

    @property
    def bus_ready(self) -> bool:
        bus = self.children.get(("StatefulSet", bus_name(self.job.metadata.name)))
        return bus is not None and bus.ready > 0

    @property
    def bus_desired(self) -> int:
        bus = self.children.get(("StatefulSet", bus_name(self.job.metadata.name)))
        return bus.replicas if bus else 0

    def pods_of(self, slot: Slot) -> tuple[Pod, ...]:
        stage, profile = slot
        return tuple(pod for pod in self.pods if pod.stage == stage.value and pod.profile == profile and not pod.ended)

    def failed(self, slot: Slot) -> tuple[Pod, ...]:
        """Pods that ended although a Deployment wants them to run, newest first; a Job looks after its own."""
        stage, profile = slot
        mine = [pod for pod in self.pods if pod.stage == stage.value and pod.profile == profile and pod.ended]
        found = [] if workload_kind(stage) == "Job" else [pod for pod in mine if not pod.terminating]
        return tuple(sorted(found, key=lambda pod: (-pod.created, pod.name)))

    def keeps_failing(self, slot: Slot, now: float) -> bool:
        """Whether so many pods failed that asking for more would only make more of them, for a while."""
        failed = self.failed(slot)
        return len(failed) >= FAILED_KEPT and now - failed[0].created < FAILED_REST_SECONDS

    def startable(self, slot: Slot, now: float) -> int | None:
        """How many replicas may be asked for, those that are there among them; None where no pod failed of late."""
        failed, here = self.failed(slot), [pod for pod in self.pods_of(slot) if not pod.terminating]
        if not failed or now - failed[0].created >= CAREFUL_SECONDS:
            return None
        starts = 0 if self.keeps_failing(slot, now) else 1
        return max(len(here), sum(pod.ready for pod in here) + starts)

    def workload(self, slot: Slot) -> Child | None:
        stage, profile = slot
        return self.children.get((workload_kind(stage), workload_name(self.job.metadata.name, stage, profile)))

    def trainer(self) -> Child | None:
        """The trainer's Job that ended last, or the one that is running."""
        jobs = [child for child in self.children.values() if child.kind == "Job" and not child.deleting]
        return max(jobs, key=lambda child: (child.outcome is not None, child.resource_version), default=None)

    def held(self, resource: AgenticRLJob) -> dict[Stage, str]:
        """Stages whose replicas somebody else owns."""
        return {
            stage: f"a HorizontalPodAutoscaler owns the replicas of Deployment {name}"
            for stage, profile in slots(resource)
            if workload_kind(stage) == "Deployment"
            and (name := workload_name(self.job.metadata.name, stage, profile)) in self.autoscaled
        }

    def gpus_used(self) -> Fraction:
        """GPUs of every bound pod that has not ended, terminating ones included."""
        return gpus_bound(self.pods)


@dataclass(frozen=True)
class PoolView:
    """One pool and everybody who draws on it, at one moment."""

    pool: Pool
    jobs: Mapping[JobKey, View]
    """Jobs that name it."""
    left: Mapping[JobKey, tuple[Pod, ...]]
    """Pods that outlive their jobs, of keys that the pool still lends to."""


def slots(resource: AgenticRLJob) -> tuple[Slot, ...]:
    return tuple((stage, profile) for stage in Stage for profile in resource.spec.stage(stage).profiles)


def seen(view: View, resource: AgenticRLJob) -> Seen:
    """The view in the words of the balance."""
    stages: dict[Stage, dict[str, StageCounts]] = {}
    for stage, profile in slots(resource):
        workload = view.workload((stage, profile))
        pods = tuple(map(pod_view, view.pods_of((stage, profile))))
        if workload is None and not pods:
            continue
        stages.setdefault(stage, {})[profile] = StageCounts(
            desired=workload.replicas if workload and not workload.deleting else 0,
            ready=sum(pod.ready and not pod.terminating for pod in pods),
            pending=sum(not pod.ready and not pod.terminating for pod in pods),
            draining=sum(pod.terminating for pod in pods),
            pods=pods,
            refused=workload.refused if workload else None,
            failed=_reasons(view.failed((stage, profile))),
        )
    return Seen(resource, view.revisions, stages, view.held(resource), _quota(view, resource), _up_since(view, stages))


def _up_since(view: View, stages: Mapping[Stage, Mapping[str, StageCounts]]) -> dict[str, float]:
    """Of each part that has or should have pods."""
    wanted = [
        (stage.value, None) for stage, profiles in stages.items() if any(one.desired for one in profiles.values())
    ]
    return up_since([*wanted, *((pod.stage, pod.up_since) for pod in view.pods if not pod.ended)])


def _quota(view: View, resource: AgenticRLJob) -> dict[str, Fraction]:
    """What the job's stages may request together: what their pods do already, and what is left besides."""
    quota = dict(view.left)
    for stage in Stage if quota else ():
        for profile, asked in requests(resource.spec.stage(stage)).items():
            pods = len(view.pods_of((stage, profile)))
            for name in quota.keys() & asked.keys():
                quota[name] += pods * asked[name]
    return quota


def litter(view: View) -> list[Pod]:
    """Failed pods beyond those that are kept to be looked at."""
    places = {(STAGES[pod.stage], pod.profile) for pod in view.pods if pod.ended and pod.stage in STAGES}
    return [pod for place in sorted(places) for pod in view.failed(place)[FAILED_KEPT:]]


def workloads(view: View, resource: AgenticRLJob) -> dict[Slot, Workload]:
    """The view in the words of the rollout."""
    found = {}
    for slot in slots(resource):
        child, pods = view.workload(slot), view.pods_of(slot)
        alive = [pod for pod in pods if not pod.terminating]
        found[slot] = Workload(
            desired=child.replicas if child and not child.deleting else 0,
            caught_up=child is None or (child.caught_up and not child.deleting),
            created=child.created if child else 0,
            alive=len(alive),
            ready=sum(pod.ready for pod in alive),
            terminating=len(pods) - len(alive),
        )
    return found


def gpus_held(pods: Iterable[Pod]) -> Fraction:
    """GPUs of every pod that has or may get one: pending and terminating ones too."""
    return sum((pod.gpus for pod in pods if pod.gpus and not pod.ended), Fraction(0))


def gpus_bound(pods: Iterable[Pod]) -> Fraction:
    """GPUs of every pod that has a node and has not ended, terminating ones too."""
    return sum((pod.gpus for pod in pods if pod.gpus and pod.bound and not pod.ended), Fraction(0))


def stage_pods(view: View) -> tuple[Pod, ...]:
    """Pods of the four stages, without the bus."""
    return tuple(pod for pod in view.pods if pod.stage != BUS and not pod.ended)


def _reasons(failed: tuple[Pod, ...]) -> tuple[str, ...]:
    return tuple(sorted({pod.problem.reason if pod.problem else "Failed" for pod in failed}))


def pod_view(pod: Pod) -> PodView:
    """One pod in the words of the balance."""
    return PodView(
        name=pod.name,
        uid=pod.uid,
        stage=STAGES[pod.stage],
        profile=pod.profile,
        ready=pod.ready,
        terminating=pod.terminating,
        created=pod.created,
        problem=pod.problem.reason if pod.problem else None,
    )
