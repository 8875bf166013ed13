"""A decision of the past, from the ledger: what it was made from, what the gates would have said, what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steelyard.api import AgenticRLJob, AllocationRevision, revision_name
from steelyard.balance.gate import GATES, Case
from steelyard.balance.ledger import completed, made_at, model_of, throughput_of
from steelyard.balance.propose import candidate_of
from steelyard.balance.trace import Tried
from steelyard.cli.ages import clock
from steelyard.cli.explain_now import allocation, candidate
from steelyard.cli.looking import Looked


@dataclass(frozen=True)
class Past:
    """One entry of the ledger."""

    job: AgenticRLJob
    revision: AllocationRevision
    throughput: float | None
    """Trajectories per second that were measured then."""
    tried: Tried | None
    """What the gates say of it with the figures of then and the spec of now; None where either does not tell."""


def explained(looked: Looked, job: AgenticRLJob, which: str | None, at: datetime | None) -> Past | None:
    """The revision of this number or name, or the one in force at a time; None when the ledger has none."""
    ledger = completed(looked.view.revisions)
    if which is not None:
        name = revision_name(job.metadata.name, int(which)) if which.isdigit() else which
        found = next((one for one in ledger if one.metadata.name == name), None)
    else:
        assert at is not None
        made = [one for one in ledger if (when := made_at(one)) is not None and when <= at.timestamp()]
        found = made[-1] if made else None
    if found is None:
        return None
    before = [one for one in ledger if one.spec.number < found.spec.number]
    throughput = throughput_of(found.spec.inputs)
    return Past(job, found, throughput or None, _tried(job, found, before, throughput))


def _tried(
    job: AgenticRLJob, revision: AllocationRevision, earlier: list[AllocationRevision], throughput: float
) -> Tried | None:
    model, move = model_of(revision.spec.inputs), revision.spec.allocation
    if model is None or throughput <= 0 or move.before == move.after:
        return None
    if not all(
        profile in job.spec.stage(stage).profiles
        for of in (move.before, move.after)
        for stage, profile, _ in of.entries()
    ):
        return None  # the spec says no more what a replica of it takes
    one = candidate_of(model, job.spec, move.before, move.after)
    case = Case(one, model, job.spec, earlier, throughput, None, made_at(revision) or 0.0)
    return Tried(one, tuple(gate(case) for gate in GATES))


def document(past: Past) -> dict[str, Any]:
    """For programs: figures are numbers, what is not known is null."""
    spec, status = past.revision.spec, past.revision.status
    measured = status.measured
    times = {
        "created": past.revision.metadata.creation_timestamp,
        "applied": status.applied_time,
        "settling": status.settling_time,
        "measuring": status.measuring_time,
        "judged": status.judged_time,
    }
    return {
        "namespace": past.job.metadata.namespace,
        "name": past.job.metadata.name,
        "revision": past.revision.metadata.name,
        "number": spec.number,
        "parent": spec.parent,
        "origin": spec.origin.value,
        "reason": spec.reason,
        "before": allocation(spec.allocation.before),
        "after": allocation(spec.allocation.after),
        "inputs": {name: _figure(value) for name, value in spec.inputs.items()},
        "predicted": spec.predicted
        and {"gainPercent": spec.predicted.gain_percent, "costSeconds": spec.predicted.cost_seconds},
        "gates": candidate(past.tried)["gates"] if past.tried else [],
        "phase": status.phase.value,
        "verdict": status.verdict.value if status.verdict else None,
        "evidence": status.evidence,
        "measured": measured
        and {
            "throughputBefore": _number(measured.throughput_before),
            "throughputAfter": _number(measured.throughput_after),
            "transitionCostSeconds": _number(measured.transition_cost_seconds),
        },
        "times": {name: at and clock(at) for name, at in times.items()},
    }


def _figure(text: str) -> float | str:
    """What people wrote by hand may be anything."""
    try:
        return float(text)
    except ValueError:
        return text


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
