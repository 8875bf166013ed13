"""Pure: a job's ledger, status, events and managed fields -> what happened to it, one entry each, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steelyard.api.names import FIELD_MANAGER, Stage
from steelyard.cli.ages import clock
from steelyard.cli.jobs import moment, parse
from steelyard.cluster.kinds import Object

TOLD_BY_LEDGER = frozenset({"Initial", "Move", "Rollback"})
"""Decisions and events that a revision tells better."""
MOST_FIELDS = 6
BY_NAME = {stage.field: stage for stage in Stage}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    at: datetime
    kind: str
    """`Revision`, `Verdict`, `Decision`, `Change` of the spec, or `Event`."""
    actor: str
    """Who did it: the operator, or a field manager."""
    subject: str
    """The revision or the rule, the condition or event."""
    text: str
    stages: frozenset[Stage] = frozenset()
    """Stages that it is about; empty when it is about the job."""

    @property
    def key(self) -> tuple[str, str, str, datetime]:
        return self.kind, self.actor, self.subject, self.at


def entries(job: Object, revisions: Sequence[Object], events: Sequence[Object]) -> list[Entry]:
    """Everything that is still known."""
    found = [*_revisions(revisions), *_decisions(job), *_changes(job), *_events(events)]
    return sorted(found, key=lambda entry: (entry.at, entry.kind, entry.subject))


def _revisions(revisions: Sequence[Object]) -> Iterator[Entry]:
    for revision in revisions:
        metadata, spec, status = revision["metadata"], revision["spec"], revision.get("status") or {}
        name, move = metadata["name"], spec["allocation"]
        before, after = move.get("before") or {}, move.get("after") or {}
        stages = frozenset(stage for field, stage in BY_NAME.items() if before.get(field) != after.get(field))
        origin = spec.get("origin") or "Operator"
        actor = _creator(metadata) if origin == "User" else "operator"
        kind = "Rollback" if origin == "Rollback" else "Revision"
        until = f" (held until {clock(moment(spec['expiresAt']))})" if spec.get("expiresAt") else ""
        yield Entry(moment(metadata["creationTimestamp"]), kind, actor, name, f"{spec['reason']}{until}", stages)
        if status.get("verdict") and status.get("judgedTime"):
            told = f"{status['verdict']}: {status.get('evidence') or 'no evidence'}"
            yield Entry(moment(status["judgedTime"]), "Verdict", "operator", name, told, stages)


def _creator(metadata: Mapping[str, Any]) -> str:
    fields = [one for one in metadata.get("managedFields") or () if one.get("subresource") != "status"]
    first = min(fields, key=lambda one: one.get("time", "9"), default=None)
    return str(first["manager"]) if first else "a user"


def _decisions(job: Object) -> Iterator[Entry]:
    for one in parse(job).decisions:
        if one.action not in TOLD_BY_LEDGER:
            yield Entry(one.at, "Decision", "operator", one.rule, one.reason)


def _changes(job: Object) -> Iterator[Entry]:
    """Who wrote which fields of the job, each writer's last time: that is what the API server keeps."""
    for one in job["metadata"].get("managedFields") or ():
        spec = ((one.get("fieldsV1") or {}).get("f:spec")) or {}
        if one.get("subresource") or one["manager"] == FIELD_MANAGER or not spec or "time" not in one:
            continue
        paths = [f"spec.{path}" for path in _paths(spec)]
        more = f" and {len(paths) - MOST_FIELDS} more" if len(paths) > MOST_FIELDS else ""
        named = frozenset(BY_NAME[key] for key in _keys(spec.get("f:stages") or {}) if key in BY_NAME)
        text = f"wrote {', '.join(paths[:MOST_FIELDS])}{more}"
        yield Entry(moment(one["time"]), "Change", one["manager"], one.get("operation", ""), text, named)


def _paths(fields: Mapping[str, Any]) -> Iterator[str]:
    for key in _keys(fields):
        below = fields[f"f:{key}"]
        deeper = [f"{key}.{path}" for path in _paths(below)] if isinstance(below, Mapping) else []
        yield from deeper or [key]


def _keys(fields: Mapping[str, Any]) -> list[str]:
    return [key.removeprefix("f:") for key in fields if key.startswith("f:")]


def _events(events: Sequence[Object]) -> Iterator[Entry]:
    for event in events:
        reason, at = event.get("reason") or "", event.get("lastTimestamp") or event["metadata"].get("creationTimestamp")
        if at is None or reason in TOLD_BY_LEDGER or reason.startswith("Verdict"):
            continue
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        actor = "operator" if source == "steelyard" else source
        yield Entry(moment(at), "Event", actor, reason, event.get("message") or "")


def chosen(found: Sequence[Entry], since: datetime | None, stage: Stage | None, limit: int) -> list[Entry]:
    """The last `limit` of them (all when 0) since a time, about a stage."""
    kept = [
        entry for entry in found if (since is None or entry.at >= since) and (stage is None or stage in entry.stages)
    ]
    return kept[-limit:] if limit else kept


def document(entry: Entry) -> dict[str, Any]:
    """For programs."""
    return {
        "time": clock(entry.at),
        "kind": entry.kind,
        "actor": entry.actor,
        "subject": entry.subject,
        "stages": [stage.field for stage in Stage if stage in entry.stages],
        "text": entry.text,
    }
