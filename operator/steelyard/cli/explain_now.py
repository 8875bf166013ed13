"""The decision of this moment: what the operator said last, and what its rules answer to what the reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, DecisionStatus, FindingStatus, Stage
from steelyard.balance.gate import Judged
from steelyard.balance.inputs import Input
from steelyard.balance.trace import Limit, Trace, Tried, trace
from steelyard.balance.types import Decision
from steelyard.cli.ages import clock
from steelyard.cli.looking import Looked, Measured, measure, scene
from steelyard.cli.session import Session
from steelyard.cluster.places import Place


@dataclass(frozen=True)
class Explained:
    """Everything there is to say about one job now."""

    job: AgenticRLJob
    at: datetime
    operator: DecisionStatus | None
    """What the operator decided last."""
    active: AllocationRevision | None
    findings: tuple[FindingStatus, ...]
    place: str | None
    """Where metrics were read."""
    window_seconds: float | None
    trace: Trace | None
    """None where the rules could not be asked."""
    resting: Decision | None
    """The decision of a job that is not balanced at this time."""
    blind: str | None
    """Why there are no metrics, None when there are."""

    @property
    def asked_again(self) -> Decision | None:
        """What the rules answer now."""
        return self.trace.plan.decision if self.trace else self.resting

    @property
    def agrees(self) -> bool:
        """Whether that is what the operator said."""
        again = self.asked_again
        return again is not None and self.operator is not None and again.kind == self.operator.kind


def explained(session: Session, looked: Looked, job: AgenticRLJob, prometheus: Place | None) -> Explained:
    """Ask the rules again."""
    at = scene(looked, job)
    status = looked.view.job.status
    rests = at.resting.decision if at.resting else None
    measured: Measured | str | None = None if rests else measure(session, prometheus, at)
    told = measured if isinstance(measured, Measured) else None
    return Explained(
        job=job,
        at=datetime.fromtimestamp(told.now, UTC) if told else datetime.now(UTC),
        operator=status.last_decisions[0] if status.last_decisions else None,
        active=at.seen.active,
        findings=status.findings,
        place=told.place if told else None,
        window_seconds=told.rates.window_seconds if told else None,
        trace=trace(at.seen, told.rates, told.now, job) if told else None,
        resting=rests,
        blind=measured if isinstance(measured, str) else None,
    )


def document(found: Explained) -> dict[str, Any]:
    """For programs: figures are numbers, what is not known is null."""
    metadata, again, operator = found.job.metadata, found.asked_again, found.operator
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "time": clock(found.at),
        "mode": found.job.spec.scaling.mode,
        "revision": found.active.metadata.name if found.active else None,
        "decision": operator and {**decision(operator), "time": clock(operator.time)},
        "askedAgain": again and decision(again),
        "agrees": found.agrees,
        "unreadable": found.blind,
        "prometheus": found.place,
        "windowSeconds": found.window_seconds,
        **_trace(found.trace),
        "findings": [
            {"symptom": one.symptom, "stage": one.stage, "evidence": one.evidence, "lookFirst": one.look_first}
            for one in found.findings
        ],
    }


def _trace(found: Trace | None) -> dict[str, Any]:
    if found is None:
        return {"inputs": [], "rules": [], "target": None, "limits": [], "candidates": [], "wouldChange": []}
    target = found.wanted and {
        "now": allocation(found.current),
        "nowPromised": found.model and found.model.throughput(found.current),
        "wanted": allocation(found.wanted),
        "wantedPromised": found.wanted_throughput,
    }
    return {
        "inputs": [_input(one) for one in found.inputs],
        "rules": [rule(one) for one in found.orders],
        "target": target or None,
        "limits": [_limit(one) for one in found.limits],
        "candidates": [candidate(one) for one in found.tried],
        "wouldChange": list(found.remedies),
    }


def decision(one: Decision | DecisionStatus) -> dict[str, Any]:
    return {"action": str(one.action), "kind": one.kind, "reason": one.reason}


def allocation(of: Allocation) -> Mapping[str, Mapping[str, int]]:
    """Stage -> GPU profile -> replicas."""
    return {stage.field: dict(of[stage]) for stage in Stage}


def rule(one: Judged) -> dict[str, Any]:
    return asdict(one)


def candidate(one: Tried) -> dict[str, Any]:
    return {
        "before": allocation(one.candidate.before),
        "after": allocation(one.candidate.after),
        "gain": one.candidate.gain,
        "boundBy": one.candidate.new.binding.field,
        "gates": [rule(gate) for gate in one.gates],
    }


def _input(one: Input) -> dict[str, Any]:
    return {
        "stage": one.stage.field,
        "meaning": one.meaning,
        "value": one.value,
        "unit": one.unit,
        "query": one.query,
        "sampleAgeSeconds": one.age_seconds,
        "pods": one.pods,
        "ofPods": one.of,
    }


def _limit(one: Limit) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "before": allocation(one.before),
        "after": allocation(one.after),
        "promised": one.throughput,
        "binds": one.binds,
        "reason": one.reason,
        "remedy": one.remedy,
    }
