"""What is told of each job: one row a family, read from what a tick learnt. Pure; `JobTelemetry` exports it.

Absent is not zero: a reader gives no sample, or None, for what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from steelyard.api import AllocationRevision, JobStatus, Stage
from steelyard.balance import signals
from steelyard.balance.types import Rates, StageEstimate
from steelyard.status import Tick
from steelyard.telemetry import moves

PREFIX = "steelyard_job"
JOB_LABELS = ("rl_namespace", "rl_job")
"""Prometheus sets `namespace` and `job` itself, to those of the operator; these two cannot collide."""

STAGE = ("stage",)

Sample = tuple[tuple[str, ...], float | None]
Source = TypeVar("Source")


@dataclass(frozen=True)
class Family(Generic[Source]):
    """One gauge of every job."""

    name: str
    what: str
    labels: tuple[str, ...]
    """Beside JOB_LABELS."""
    read: Callable[[Source], Iterable[Sample]]
    """Label values and value of each sample."""
    lasting: bool = False
    """Whether a sample stays as it was told last while nothing newer is known."""


@dataclass(frozen=True)
class Round:
    """One tick, and what it wrote."""

    tick: Tick
    status: JobStatus

    @cached_property
    def ledger(self) -> tuple[AllocationRevision, ...]:
        """The job's revisions after this tick, oldest first."""
        return moves.ledger(self.tick)

    @cached_property
    def judged(self) -> moves.Judged:
        return moves.last_judged(self.ledger)


def _plain(name: str, what: str, figure: Callable[[Round], float | None]) -> Family[Round]:
    return Family(name, what, (), lambda of: [((), figure(of))])


def _estimate(name: str, what: str, figure: Callable[[StageEstimate], float | None]) -> Family[Round]:
    return Family(
        name, what, STAGE, lambda of: [((stage.value,), figure(one)) for stage, one in of.tick.plan.stages.items()]
    )


def _conditions(status: JobStatus) -> Iterator[Sample]:
    for condition in status.conditions:
        if condition.status != "Unknown":
            yield (condition.type,), condition.status == "True"


def _phase(status: JobStatus) -> Iterator[Sample]:
    if status.phase:
        yield (status.phase,), 1


def _info(of: Round) -> Iterator[Sample]:
    pool = of.tick.job.spec.pool
    yield (of.tick.job.spec.scaling.mode, pool.name if pool else "", pool.queue if pool else ""), 1


def _replicas(of: Round) -> Iterator[Sample]:
    for stage in Stage:
        for profile, counts in of.status.stages[stage].profiles.items():
            for state in ("desired", "ready", "pending", "draining"):
                yield (stage.value, profile, state), getattr(counts, state)


def _most_replicas(of: Round) -> Iterator[Sample]:
    for stage in Stage:
        yield (stage.value,), of.tick.job.spec.stage(stage).replicas.max


def _stage_gpus(of: Round) -> Iterator[Sample]:
    for stage in Stage:
        gpus = of.status.stages[stage].gpus
        yield (stage.value,), None if gpus is None else float(gpus)


def _bottleneck(of: Round) -> Iterator[Sample]:
    if found := of.tick.plan.bottleneck:
        for stage in Stage:
            yield (stage.value,), stage is found.stage


def _findings(of: Round) -> Iterator[Sample]:
    for finding in of.tick.plan.findings:
        yield (finding.symptom.value, finding.stage.value if finding.stage else ""), 1


def _recommendation(of: Round) -> Iterator[Sample]:
    if advice := of.tick.plan.advice:
        yield (advice.remedy.value,), 1


def _decision(of: Round) -> Iterator[Sample]:
    decision = of.tick.plan.decision
    yield (decision.action.value, decision.kind), 1


def _sampled(of: Round) -> Iterator[Sample]:
    for stage in Stage:
        pods = [pod.name for pod in of.tick.view.pods if pod.stage == stage.value]
        yield (stage.value,), _newest(of.tick.rates, pods)


def _newest(rates: Rates, pods: Iterable[str]) -> float | None:
    found = [
        series.samples[-1][0] for pod in pods for series in rates.series(signals.STAGE_SECONDS, pod) if series.samples
    ]
    return max(found, default=None)


OF_STATUS: tuple[Family[JobStatus], ...] = (
    Family("condition", "Conditions of the job: 1 true, 0 false", ("condition",), _conditions),
    Family("phase", "The phase the job is in", ("phase",), _phase),
)
"""Known of every job, also of one whose spec is invalid."""

OF_ROUND: tuple[Family[Round], ...] = (
    Family("info", "Mode, and pool and queue that lend GPUs (empty without)", ("mode", "pool", "queue"), _info),
    _plain("last_tick_timestamp_seconds", "When the operator last looked at the job", lambda of: of.tick.now),
    _plain("interval_seconds", "Time between two rounds", lambda of: of.tick.plan.wake),
    Family(
        "metrics_timestamp_seconds", "Time of the newest sample that was read of a stage", STAGE, _sampled, lasting=True
    ),
    _plain("trajectories_per_second", "Trajectories trained per second", lambda of: of.tick.plan.throughput),
    _plain("training_step", "Training steps done", lambda of: of.status.training.step if of.status.training else None),
    _plain(
        "training_steps_wanted",
        "Training steps after which the job is complete",
        lambda of: of.tick.job.spec.algorithm.steps,
    ),
    _plain(
        "staleness_limit",
        "Most policy versions a trajectory may lag behind",
        lambda of: of.tick.job.spec.algorithm.max_staleness,
    ),
    _plain(
        "gpus_budget",
        "GPUs the job may hold: its own budget, or less where its pool grants less",
        lambda of: float(of.status.gpus.budget) if of.status.gpus else None,
    ),
    _plain(
        "gpus_used",
        "GPUs that bound pods of the job hold, terminating ones included",
        lambda of: float(of.status.gpus.used) if of.status.gpus else None,
    ),
    Family("stage_gpus", "GPUs that bound pods of a stage hold", STAGE, _stage_gpus),
    Family(
        "replicas",
        "Replicas by GPU profile and state: desired by the active revision, ready, pending, draining",
        ("stage", "profile", "state"),
        _replicas,
    ),
    Family("stage_replicas_max", "Most replicas the spec allows, over all profiles", STAGE, _most_replicas),
    _estimate(
        "stage_units_per_second",
        "Units a stage finishes per second: tokens of the sampler, trajectories elsewhere",
        lambda of: of.throughput,
    ),
    _estimate(
        "stage_capacity_trajectories_per_second",
        "Trajectories per second that the present replicas of a stage could carry",
        lambda of: of.capacity,
    ),
    _estimate("stage_utilization_ratio", "Share of a stage's slot time that was work", lambda of: of.utilization),
    _estimate("stage_starved_ratio", "Share of a stage's slot time without input", lambda of: of.wait),
    _estimate(
        "stage_blocked_ratio",
        "Share of a stage's slot time with nowhere to put its output, or admission closed",
        lambda of: of.blocked,
    ),
    _estimate(
        "stage_backlog", "Trajectories that wait in front of a stage; of the sampler, requests", lambda of: of.backlog
    ),
    Family("bottleneck", "1 for the stage that holds the pipeline back, 0 for the others", STAGE, _bottleneck),
    Family("finding", "Symptoms that show, and where (empty: everywhere)", ("symptom", "stage"), _findings),
    Family("recommendation", "What reallocation can do for the job now", ("remedy",), _recommendation),
    Family("decision", "What the last round decided, and by which rule", ("action", "kind"), _decision),
    _plain(
        "revision",
        "Number of the revision in force",
        lambda of: of.tick.plan.active.spec.number if of.tick.plan.active else None,
    ),
    Family(
        "revisions",
        "Revisions in the ledger, by who made them and what they were worth",
        ("origin", "verdict"),
        lambda of: moves.counts(of.ledger),
    ),
    Family(
        "last_move_timestamp_seconds",
        "When a stage was last moved, by direction (up, down, profile) and origin",
        ("stage", "direction", "origin"),
        lambda of: moves.last_moves(of.ledger),
    ),
    Family(
        "last_verdict_timestamp_seconds",
        "When a move was last judged so",
        ("verdict",),
        lambda of: moves.last_verdicts(of.ledger),
    ),
    _plain(
        "predicted_gain_ratio",
        "Gain of throughput that the move judged last was expected to bring",
        lambda of: of.judged.predicted_gain,
    ),
    _plain(
        "measured_gain_ratio",
        "Gain of throughput that the move judged last brought",
        lambda of: of.judged.measured_gain,
    ),
    _plain(
        "predicted_cost_seconds",
        "Cost that the move judged last was expected to have, in seconds of the old throughput",
        lambda of: of.judged.predicted_cost,
    ),
    _plain(
        "measured_cost_seconds",
        "Cost that the move judged last had, in seconds of the old throughput",
        lambda of: of.judged.measured_cost,
    ),
    _plain(
        "hold_since_timestamp_seconds",
        "Since when a user's revision is held",
        lambda of: moves.hold_since(of.tick),
    ),
    _plain(
        "hold_expires_timestamp_seconds",
        "When a user's hold ends; absent when it has no end",
        lambda of: moves.hold_expires(of.tick),
    ),
)
