"""What is worth an event: a decision, a verdict, a repaired drift, a condition that changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.api import Condition, JobStatus
from steelyard.balance.types import Plan
from steelyard.cluster.changes import Change

BAD = frozenset({"Conflict", "Degraded", "Failed", "Stalled"})
GOOD = frozenset({"Ready", "Scheduled", "QuotaReserved"})
QUIET = frozenset({"MetricsAvailable", "Balanced", "Progressing", "Reconciling"})
"""They come and go with the work; status and metrics show them."""


@dataclass(frozen=True)
class Event:
    """One line for whoever reads `kubectl describe`."""

    kind: str
    reason: str
    message: str


def of_plan(plan: Plan) -> list[Event]:
    events = []
    if plan.revision:
        events.append(Event("Normal", plan.decision.action, f"{plan.revision.metadata.name}: {plan.decision.reason}"))
    for name, status in plan.updates.items():
        if status.verdict and status.judged_time:
            events.append(Event("Normal", f"Verdict{status.verdict}", f"{name}: {status.evidence or 'no evidence'}"))
    return events


def of_changes(changes: Iterable[Change]) -> list[Event]:
    return [
        Event("Warning", "DriftRepaired", f"{change.drift} changed {change.kind} {change.name}; it was applied again")
        for change in changes
        if change.drift
    ]


def of_transitions(old: JobStatus, new: JobStatus) -> list[Event]:
    """The first status of a job tells only what is wrong with it."""
    told = [condition for condition in _changed(old, new) if condition.type not in QUIET]
    return [_event(condition) for condition in told if old.conditions or condition.type in BAD]


def _changed(old: JobStatus, new: JobStatus) -> Sequence[Condition]:
    return [
        condition
        for condition in new.conditions
        if condition.status != (before.status if (before := old.condition(condition.type)) else "False")
    ]


def _event(condition: Condition) -> Event:
    holds = condition.status == "True"
    bad = holds if condition.type in BAD else not holds and condition.type in GOOD
    name = condition.type if holds else f"Not{condition.type}"
    return Event("Warning" if bad else "Normal", name, f"{condition.reason}: {condition.message}")
