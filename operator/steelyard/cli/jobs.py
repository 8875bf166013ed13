"""An AgenticRLJob as its status tells it, read once from JSON: all that `status`, `tree` and `top` need of it.

The API's own types are not used here: building their validators takes longer than `steelyard status` may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from steelyard.api.names import Stage
from steelyard.cluster.kinds import Object

BAD = ("Failed", "Stalled", "Degraded", "Conflict")
"""Conditions that are bad news when they hold."""
CONDITIONS = (
    "Ready", "Progressing", "Suspended", "MetricsAvailable", "Balanced", "Scheduled", "QuotaReserved", "Conflict",
    "Degraded", "Complete", "Failed", "Reconciling", "Stalled",
)  # fmt: skip
WAITING_FOR_GPUS = "WaitingForGpus"


@dataclass(frozen=True, slots=True)
class Condition:
    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Replicas:
    """Of one GPU profile of a stage."""

    desired: int
    ready: int
    pending: int
    draining: int


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage. Figures are as the operator wrote them, None where it knew none."""

    profiles: Mapping[str, Replicas]
    gpus: str | None
    throughput: str | None
    utilization: str | None
    backlog: str | None
    wait: str | None

    @property
    def desired(self) -> int:
        return sum(one.desired for one in self.profiles.values())

    @property
    def ready(self) -> int:
        return sum(one.ready for one in self.profiles.values())

    @property
    def draining(self) -> int:
        return sum(one.draining for one in self.profiles.values())


@dataclass(frozen=True, slots=True)
class Decision:
    at: datetime
    action: str
    kind: str
    reason: str

    @property
    def rule(self) -> str:
        """What was done and by which rule: `Hold (DeadBand)`."""
        return f"{self.action} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Job:
    """One job at one moment."""

    namespace: str
    name: str
    uid: str
    created: datetime
    phase: str
    """`Deleting` while it goes away, `Pending` before the operator has looked at it."""
    conditions: Mapping[str, Condition]
    """Those seen at the newest generation of the spec."""
    stages: Mapping[Stage, StageFigures]
    revision: str | None
    step: int | None
    steps: int | None
    reward: str | None
    throughput: str | None
    bottleneck: Stage | None
    evidence: str | None
    gpus_used: str | None
    gpus_budget: str | None
    decisions: tuple[Decision, ...]
    """Newest first."""
    pool: str | None
    mode: str

    @property
    def ended(self) -> bool:
        return self.holds("Complete") or self.holds("Failed")

    def holds(self, condition: str) -> bool:
        found = self.conditions.get(condition)
        return found is not None and found.holds

    @property
    def unwell(self) -> bool:
        """Failed, degraded, or waiting for a person."""
        return any(self.holds(name) for name in ("Failed", "Stalled", "Degraded"))

    @property
    def held(self) -> bool:
        """Whether a user's hold decided last."""
        return bool(self.decisions) and self.decisions[0].kind == "Held"

    @property
    def waits_for_gpus(self) -> bool:
        """Whether its pool lends it nothing for now."""
        found = self.conditions.get("QuotaReserved")
        return found is not None and not found.holds and found.reason == WAITING_FOR_GPUS

    @property
    def troubles(self) -> list[tuple[str, Condition]]:
        """What is wrong, in words; empty when nothing is known to be."""
        return [(name, self.conditions[name]) for name in BAD if self.holds(name)]


def parse(obj: Object) -> Job:
    """Whatever a status lacks stays None: a job may be younger than its status."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    training, gpus, bottleneck = (status.get(name) or {} for name in ("training", "gpus", "bottleneck"))
    phase = "Deleting" if "deletionTimestamp" in metadata else status.get("phase") or "Pending"
    stages = status.get("stages") or {}
    return Job(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        created=moment(metadata["creationTimestamp"]),
        phase=phase,
        conditions=_conditions(status.get("conditions") or (), metadata.get("generation")),
        stages={stage: _stage(stages.get(stage.field) or {}) for stage in Stage},
        revision=status.get("activeRevision"),
        step=training.get("step"),
        steps=training.get("steps") or (spec.get("algorithm") or {}).get("steps"),
        reward=training.get("reward"),
        throughput=status.get("throughput"),
        bottleneck=Stage.of_field(bottleneck["stage"]) if bottleneck else None,
        evidence=bottleneck.get("evidence"),
        gpus_used=gpus.get("used"),
        gpus_budget=gpus.get("budget") or _text((spec.get("budget") or {}).get("gpus")),
        decisions=tuple(
            Decision(moment(one["time"]), one["action"], one["kind"], one["reason"])
            for one in status.get("lastDecisions") or ()
        ),
        pool=(spec.get("pool") or {}).get("name"),
        mode=(spec.get("scaling") or {}).get("mode") or "Dynamic",
    )


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def number(text: str | None) -> float | None:
    """A figure of a status, or a quantity of GPUs, as a number."""
    if text is None:
        return None
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _conditions(found: Iterable[Object], generation: int | None) -> dict[str, Condition]:
    return {
        one["type"]: Condition(one["status"] == "True", one.get("reason", ""), one.get("message", ""))
        for one in found
        if one.get("observedGeneration") in (None, generation)
    }


def _stage(figures: Object) -> StageFigures:
    profiles = {
        name: Replicas(*(int(counts.get(key) or 0) for key in ("desired", "ready", "pending", "draining")))
        for name, counts in (figures.get("profiles") or {}).items()
    }
    return StageFigures(
        profiles, *(figures.get(key) for key in ("gpus", "throughput", "utilization", "backlog", "wait"))
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def queue_position(job: Job, pools: Iterable[Object]) -> tuple[int, int] | None:
    """Where a waiting job stands in its queue: (place from 1, how many wait there); None when no pool says."""
    for pool in pools:
        if pool["metadata"]["name"] != job.pool:
            continue
        grants = (pool.get("status") or {}).get("grants") or ()  # who has waited longest comes first
        waiting = [grant for grant in grants if grant.get("waitingSince")]
        mine = next((one for one in waiting if (one["namespace"], one["job"]) == (job.namespace, job.name)), None)
        if mine is not None:
            queue = [one for one in waiting if one["queue"] == mine["queue"]]
            return queue.index(mine) + 1, len(queue)
    return None
