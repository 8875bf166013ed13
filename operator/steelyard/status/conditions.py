"""Each condition from what the tick learnt: a small function with a sentence as its message.

Tools that wait for a job (kstatus in Helm and Flux, Argo CD, `kubectl wait`) read Ready, Reconciling and Stalled. Ready
says that what the spec asks for is there, and a job that is complete or suspended has nothing more to become. A move of
ours sets neither Progressing nor Reconciling: those tools would flap with every rebalance.
"""

from __future__ import annotations

from dataclasses import replace

from steelyard.api import Condition, JobStatus, PoolStatus
from steelyard.balance.readiness import GATED
from steelyard.balance.types import Fact, Instant
from steelyard.cluster.quota import Quota
from steelyard.status.figures import moment
from steelyard.status.tick import Tick, lacking, troubles, unschedulable

STARTING, LOST, WAITING = "Starting", "ReplicasLost", "WaitingForGpus"
STOPPING = Fact(False, "Stopping", "pods finish or hand back their work")


def conditions(tick: Tick) -> tuple[Condition, ...]:
    """All conditions, in a fixed order; a transition time changes only with the status."""
    before, generation = tick.view.job.status, tick.view.job.metadata.generation
    return tuple(
        stamped(before, kind, fact(tick), tick.now, generation)
        for kind, fact in {
            "Ready": _ready,
            "Progressing": _progressing,
            "Suspended": _suspended,
            "MetricsAvailable": lambda tick: tick.plan.metrics,
            "Balanced": lambda tick: tick.plan.balanced,
            "Scheduled": _scheduled,
            "QuotaReserved": _quota_reserved,
            "Conflict": _conflict,
            "Degraded": _degraded,
            "Complete": _complete,
            "Failed": _failed,
            "Reconciling": _progressing,
            "Stalled": _stalled,
        }.items()
    )


def stamped(before: JobStatus | PoolStatus, kind: str, fact: Fact, now: Instant, generation: int) -> Condition:
    status = "True" if fact.status else "False"
    old = before.condition(kind)
    since = old.last_transition_time if old and old.status == status else moment(now)
    return Condition(
        type=kind,
        status="True" if fact.status else "False",
        reason=fact.reason,
        message=fact.message,
        last_transition_time=since,
        observed_generation=generation,
    )


def _ready(tick: Tick) -> Fact:
    if tick.failed:
        return Fact(False, "Failed", "the job has failed")
    if tick.complete:
        return Fact(True, "Complete", "the job did all its steps")
    if tick.job.spec.suspend:
        return Fact(True, "Suspended", "nothing runs, as spec.suspend asks") if tick.stopped else STOPPING
    if tick.waits:
        return _quota_reserved(tick)
    missing = lacking(tick)
    if not missing:
        return Fact(True, "ReplicasReady", "every stage has the replicas it needs")
    before = tick.view.job.status.condition("Ready")
    same_spec = before is not None and before.observed_generation == tick.view.job.metadata.generation
    if before and same_spec and before.status == "True" and tick.patient:
        return Fact(True, before.reason, before.message)
    lost = before is not None and same_spec and (before.status == "True" or before.reason == LOST)
    return Fact(False, LOST if lost else STARTING, "; ".join(missing))


def _progressing(tick: Tick) -> Fact:
    if tick.over:
        return Fact(False, "Ended", "the job has ended")
    if (stalled := _stalled(tick)).status:
        return replace(stalled, status=False)
    if tick.job.spec.suspend or tick.waits:
        if tick.stopped:
            return Fact(False, "Suspended" if tick.job.spec.suspend else WAITING, "everything has stopped")
        return replace(STOPPING, status=True)
    ready = _ready(tick)
    if ready.status or ready.reason == LOST:
        return Fact(False, ready.reason, ready.message)
    return Fact(True, STARTING, ready.message)


def _suspended(tick: Tick) -> Fact:
    if not tick.job.spec.suspend or tick.over:
        return Fact(False, "NotSuspended", "spec.suspend is false" if not tick.over else "the job has ended")
    if tick.stopped:
        return Fact(True, "Suspended", "all pods have stopped; claims are kept")
    return STOPPING


def _of_pool(tick: Tick, quota: Quota) -> Fact:
    if tick.over:
        return Fact(False, "Ended", "a job that has ended asks for no GPUs")
    if tick.job.spec.suspend:
        return Fact(False, "Suspended", "a suspended job asks for no GPUs")
    return quota.reserved


def _scheduled(tick: Tick) -> Fact:
    if waiting := unschedulable(tick):
        first = waiting[0]
        assert first.problem is not None
        return Fact(False, first.problem.reason, f"{len(waiting)} pods wait, {first.name}: {first.problem.message}")
    return Fact(True, "Scheduled", "no pod waits for a node")


def _quota_reserved(tick: Tick) -> Fact:
    """A pool without GPUs for it, a quota that refuses pods, or a queue that holds them back: somebody must grant."""
    pool = _of_pool(tick, tick.quota) if tick.quota else None
    if pool and not pool.status:
        return pool
    for child in tick.view.children.values():
        if child.refused:
            return Fact(False, "Refused", f"{child.kind} {child.name} may make no more pods: {child.refused}")
    if tick.refused and "quota" in tick.refused:
        return Fact(False, "Refused", tick.refused)
    if gated := [pod.name for pod in unschedulable(tick) if pod.problem and pod.problem.reason == GATED]:
        return Fact(False, GATED, f"a queue holds back {len(gated)} pods: {', '.join(sorted(gated)[:3])}")
    return pool or Fact(True, "NotRefused", "no quota and no queue keeps pods back")


def _conflict(tick: Tick) -> Fact:
    held = tick.view.held(tick.job)
    if not held:
        return Fact(False, "NoConflict", "nobody else owns replicas of this job")
    said = "; ".join(f"{stage.field}: {reason}" for stage, reason in held.items())
    return Fact(True, "ReplicasOwnedElsewhere", f"{said}. Steelyard leaves these replicas alone; delete the autoscaler")


def _degraded(tick: Tick) -> Fact:
    if tick.refused:
        return Fact(True, "ApplyRefused", tick.refused)
    if not tick.over and (found := troubles(tick)):
        where, problem = found[0]
        reason = "ConfigurationError" if problem.users else problem.reason
        return Fact(True, reason, f"{where}: {problem.message}")
    ready = _ready(tick)
    if ready.reason == LOST and not ready.status:
        return Fact(True, LOST, ready.message)
    return Fact(False, "AsExpected", "nothing is known to be broken")


def _complete(tick: Tick) -> Fact:
    if not tick.complete:
        return Fact(False, "NotComplete", "the trainer has not reached its last step")
    return Fact(True, "TrainerComplete", f"the trainer finished {tick.job.spec.algorithm.steps} steps")


def _failed(tick: Tick) -> Fact:
    if tick.ended is None or tick.ended.complete:
        return Fact(False, "NotFailed", "the trainer has not failed")
    words = next((pod.last_words for pod in tick.view.pods if pod.stage == "trainer" and pod.last_words), "")
    return Fact(True, "TrainerFailed", words or tick.ended.message)


def _stalled(tick: Tick) -> Fact:
    """Only a person can help."""
    if tick.failed:
        return _failed(tick)
    if tick.refused:
        return Fact(True, "ApplyRefused", tick.refused)
    if not tick.over and (found := troubles(tick)) and found[0][1].users:
        where, problem = found[0]
        return Fact(True, "ConfigurationError", f"{where}: {problem.message}")
    if tick.waits and tick.quota and tick.quota.refused:
        return replace(tick.quota.reserved, status=True)
    return Fact(False, "NotStalled", "nothing waits for a person")
