"""Pure: what a tick learnt and what the status said before -> what the status says now. Called by the controller.

Words are written at once; numbers alone at most once a minute (`worth_writing`).
"""

from __future__ import annotations

from fractions import Fraction

from steelyard.api import (
    BottleneckStatus,
    Condition,
    DecisionStatus,
    FindingStatus,
    GpuStatus,
    JobStatus,
    RecommendationStatus,
    ReplicaCounts,
    Stage,
    StagesStatus,
    StageStatus,
)
from steelyard.balance.types import Fact, Instant, Plan, StageEstimate
from steelyard.cluster.quota import to_sign
from steelyard.cluster.records import Job
from steelyard.cluster.view import slots
from steelyard.status.conditions import conditions, stamped
from steelyard.status.figures import exact, figure, moment
from steelyard.status.tick import Tick, lacking
from steelyard.status.training import training

__all__ = ["Tick", "lacking", "signed_for", "status", "status_of_broken", "worth_writing"]

DECISIONS = 5
FINDINGS = 8
MOST_TEXT = 1024
NUMBERS_SECONDS = 60.0


def status(tick: Tick) -> JobStatus:
    """The whole status of a job whose spec is valid."""
    plan, found = tick.plan, conditions(tick)
    return JobStatus(
        observed_generation=tick.view.job.metadata.generation,
        phase=_phase(found, waits=tick.waits),
        conditions=found,
        active_revision=plan.active.metadata.name if plan.active else None,
        throughput=figure(plan.throughput),
        bottleneck=plan.bottleneck
        and BottleneckStatus(stage=plan.bottleneck.stage.field, evidence=plan.bottleneck.evidence[:MOST_TEXT]),
        findings=_findings(plan),
        recommendation=plan.advice
        and RecommendationStatus(remedy=plan.advice.remedy, reason=plan.advice.reason[:MOST_TEXT]),
        stages=StagesStatus.of({stage: _stage(tick, stage) for stage in Stage}),
        training=training(tick),
        gpus=GpuStatus(budget=exact(_budget(tick)), used=exact(tick.view.gpus_used())),
        last_decisions=_decisions(tick),
    )


def status_of_broken(job: Job, now: Instant) -> JobStatus:
    """A job whose spec breaks a rule: says so, and leaves everything else as it was, pods included."""
    generation = job.metadata.generation
    words = Fact(True, "InvalidSpec", f"{job.broken}. Everything is left running as it was")
    news = {
        "Stalled": stamped(job.status, "Stalled", words, now, generation),
        "Reconciling": stamped(
            job.status, "Reconciling", Fact(False, "InvalidSpec", "the spec is invalid"), now, generation
        ),
    }
    kept = [news.pop(condition.type, condition) for condition in job.status.conditions]
    updated = {"conditions": (*kept, *news.values()), "observed_generation": generation, "phase": "Stalled"}
    return job.status.model_copy(update=updated)


def signed_for(before: JobStatus, budget: Fraction) -> JobStatus:
    """The same status of a job that is about to use `budget` GPUs."""
    used = before.gpus.used if before.gpus else exact(Fraction(0))
    return before.model_copy(update={"gpus": GpuStatus(budget=exact(budget), used=used)})


def worth_writing(old: JobStatus, new: JobStatus, since_last_numbers: float) -> bool:
    """Whether to write `new`: words changed, or numbers did and the last time was a minute ago."""
    return old != new and (_words(old) != _words(new) or since_last_numbers >= NUMBERS_SECONDS)


def _words(of: JobStatus) -> JobStatus:
    """The status without its figures."""
    return of.model_copy(
        update={
            "throughput": None,
            "training": None,
            "findings": (),
            "recommendation": None,
            "bottleneck": of.bottleneck and of.bottleneck.model_copy(update={"evidence": ""}),
            "stages": StagesStatus.of({stage: StageStatus(profiles=of.stages[stage].profiles) for stage in Stage}),
            "conditions": tuple(condition.model_copy(update={"message": ""}) for condition in of.conditions),
            "last_decisions": tuple(decision.model_copy(update={"reason": ""}) for decision in of.last_decisions),
        }
    )


PHASES = (
    ("Failed", "Failed"),
    ("Complete", "Complete"),
    ("Suspended", "Suspended"),
    ("Stalled", "Stalled"),
    ("Degraded", "Degraded"),
    ("Ready", "Running"),
)


def _phase(found: tuple[Condition, ...], *, waits: bool) -> str:
    true = {condition.type: condition for condition in found if condition.status == "True"}
    for kind, phase in PHASES:
        if kind in true:
            return phase
    if "Progressing" in true:
        return true["Progressing"].reason
    return "Waiting" if waits else "Starting"


def _budget(tick: Tick) -> Fraction:
    if tick.means is None or tick.means.quota is None:
        return tick.job.spec.budget.gpus
    return to_sign(tick.view, tick.job, tick.means.budget)


def _stage(tick: Tick, stage: Stage) -> StageStatus:
    estimate = tick.plan.stages.get(stage, StageEstimate())
    pods = {slot: tick.view.pods_of(slot) for slot in slots(tick.job) if slot[0] is stage}
    return StageStatus(
        profiles={
            profile: ReplicaCounts(
                desired=tick.wanted((stage, profile)),
                ready=sum(pod.ready and not pod.terminating for pod in mine),
                pending=sum(not pod.ready and not pod.terminating for pod in mine),
                draining=sum(pod.terminating for pod in mine),
            )
            for (_, profile), mine in pods.items()
        },
        gpus=exact(
            sum((pod.gpus for mine in pods.values() for pod in mine if pod.bound), start=0 * tick.job.spec.budget.gpus)
        ),
        throughput=figure(estimate.throughput),
        utilization=figure(estimate.utilization),
        backlog=figure(estimate.backlog),
        wait=figure(estimate.wait),
    )


def _findings(plan: Plan) -> tuple[FindingStatus, ...]:
    return tuple(
        FindingStatus(
            symptom=finding.symptom,
            stage=finding.stage.field if finding.stage else None,
            evidence=finding.evidence[:MOST_TEXT],
            look_first=finding.look_first[:MOST_TEXT],
        )
        for finding in plan.findings[:FINDINGS]
    )


def _decisions(tick: Tick) -> tuple[DecisionStatus, ...]:
    """Newest first. The same decision again updates its reason and keeps its time."""
    before, decision = tick.view.job.status.last_decisions, tick.plan.decision
    latest = DecisionStatus(
        time=moment(tick.now), action=decision.action, kind=decision.kind, reason=decision.reason[:MOST_TEXT]
    )
    if before and (before[0].action, before[0].kind) == (latest.action, latest.kind) and tick.plan.revision is None:
        return latest.model_copy(update={"time": before[0].time}), *before[1:DECISIONS]
    return latest, *before[: DECISIONS - 1]
