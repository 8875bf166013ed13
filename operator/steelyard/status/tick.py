"""What one tick learnt, all that a status is folded from."""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.api import AgenticRLJob, Stage
from steelyard.balance.types import Instant, Plan, Rates
from steelyard.children.common import Slot
from steelyard.children.render import Ending
from steelyard.children.trainer import STOPPED
from steelyard.cluster.problems import Problem
from steelyard.cluster.quota import Means, Quota
from steelyard.cluster.records import Child, Pod
from steelyard.cluster.view import STAGES, View, slots

PATIENCE_SECONDS = 60.0
"""How long a job that was ready may lack replicas before it counts as degraded: an API server's or a node's hiccup."""
SCHEDULING_SECONDS = 10.0


@dataclass(frozen=True)
class Tick:
    """Frozen: the fold is a function of this alone."""

    view: View
    job: AgenticRLJob
    plan: Plan
    rates: Rates
    now: Instant
    ended: Ending | None = None
    """How the job ended, when it did."""
    refused: str | None = None
    """What the API server would not take, in its words."""
    stuck: dict[str, str] = field(default_factory=dict)
    """Pod name -> why its containers are not even created, in the kubelet's words."""
    unready_since: Instant | None = None
    means: Means | None = None
    """What the job had to work with; its own budget when not said."""

    @property
    def failed(self) -> bool:
        return self.ended is not None and not self.ended.complete

    @property
    def complete(self) -> bool:
        return self.ended is not None and self.ended.complete

    @property
    def over(self) -> bool:
        return self.ended is not None

    @property
    def quota(self) -> Quota | None:
        """What the job's pool says, when it names one."""
        return self.means.quota if self.means else None

    @property
    def waits(self) -> bool:
        """Whether the job stands still because its pool lends it nothing."""
        return self.means is not None and self.means.waits

    @property
    def stopped(self) -> bool:
        """Suspended or without GPUs, and nothing runs any more."""
        return (self.job.spec.suspend or self.waits) and not any(not pod.ended for pod in self.view.pods)

    @property
    def moving(self) -> bool:
        """A move of ours is under way: fewer ready replicas are its price, not a fault."""
        active = self.plan.active
        return active is not None and active.spec.number > 1 and active.status.phase in ("Pending", "Applying")

    @property
    def patient(self) -> bool:
        """Whether lacking replicas is still put up with."""
        return self.moving or self.unready_since is None or self.now - self.unready_since < PATIENCE_SECONDS

    def wanted(self, slot: Slot) -> int:
        """Replicas that the active revision asks for."""
        active = self.plan.active
        return active.spec.allocation.after[slot[0]].get(slot[1], 0) if active else 0


def lacking(tick: Tick) -> list[str]:
    """What the job needs to work and has not, in words; empty when it is ready."""
    missing = [] if tick.view.bus_ready else ["the bus is not ready"]
    for stage in Stage:
        mine = [slot for slot in slots(tick.job) if slot[0] is stage]
        wanted = sum(tick.wanted(slot) for slot in mine)
        needed = min(wanted, max(1, tick.job.spec.stage(stage).replicas.min))
        pods = [pod for slot in mine for pod in tick.view.pods_of(slot)]
        ready = sum(pod.ready and not pod.terminating for pod in pods)
        if ready < needed:
            missing.append(f"{stage.field} has {ready} of {needed} replicas ready")
        elif outdated := [name for slot in mine if (name := _outdated(tick.view.workload(slot)))]:
            missing.append(f"{outdated[0]} is being updated")
    return missing


def troubles(tick: Tick) -> list[tuple[str, Problem]]:
    """Pods that do not work and will not by themselves, the user's mistakes first. (where, why)."""
    found = [
        (f"pod {pod.name}", problem)
        for pod in tick.view.pods
        if (problem := _problem(tick, pod)) and not pod.terminating
    ]
    return sorted(found, key=lambda entry: (not entry[1].users, entry[0]))


def unschedulable(tick: Tick) -> list[Pod]:
    """Pods that have waited for a node longer than it takes to bind a claim."""
    return [
        pod
        for pod in tick.view.pods
        if pod.problem
        and not (pod.ended or pod.bound or pod.terminating)
        and tick.now - pod.created > SCHEDULING_SECONDS
    ]


def _problem(tick: Tick, pod: Pod) -> Problem | None:
    if pod.name in tick.stuck and not pod.started:
        return Problem("ContainerCannotBeCreated", tick.stuck[pod.name])
    if pod.ended:
        return _why_it_ended(tick, pod)
    return pod.problem if pod.bound else None


def _why_it_ended(tick: Tick, pod: Pod) -> Problem | None:
    """Why the newest trainer died, as long as no other works; why pods of a Deployment fail again and again.

    A Job waits minutes before it starts the next.
    """
    stage = STAGES.get(pod.stage)
    if stage is not None and stage is not Stage.TRAINER:
        return pod.problem if tick.view.keeps_failing((stage, pod.profile), tick.now) else None
    trainers = [other for other in tick.view.pods if other.stage == Stage.TRAINER.value]
    newest = max((other for other in trainers if other.ended), key=lambda other: other.created, default=None)
    if pod is not newest or any(other.ready for other in trainers):
        return None
    return pod.problem if pod.problem and pod.problem.exit_code not in (0, STOPPED) else None


def _outdated(child: Child | None) -> str | None:
    """The name of a Deployment whose pods are not all of its newest template."""
    if child is None or child.kind != "Deployment" or (child.caught_up and child.updated >= child.replicas):
        return None
    return f"Deployment {child.name}"
