"""What applying a file would come to, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from steelyard.cli.differing.outcome import Field, Outcome, Pods, Replicas
from steelyard.cli.explain_now import decision
from steelyard.cli.output import Column, Tinted, Tone, table

TONES = {Pods.RESTART: Tone.BUSY, Pods.STOP: Tone.BUSY, Pods.UNKNOWN: Tone.BUSY, Pods.KEEP: Tone.FAINT}
COLUMNS = (Column("STAGE"), Column("PROFILE"), Column("REPLICAS"), Column("PODS"))
OBJECT = ("action", "kind", "name")


def lines(result: Outcome, blind: str | None) -> Iterator[str]:
    """For people."""
    metadata = result.job.metadata
    about = f"{metadata.namespace}/{metadata.name}"
    if result.new:
        yield f"{about} is not there yet"
    else:
        count = len(result.fields)
        yield f"{about}: {count or 'no'} field{'' if count == 1 else 's'} of its spec would change"
    yield from (f"  {_field(one)}" for one in result.fields)
    yield f"Decision: {result.decision.reason}"
    if blind:
        yield f"  (without metrics: {blind})"
    yield from table(COLUMNS, [_row(one) for one in result.replicas], headers=bool(result.replicas))
    moved = _moved(f"{result.gpus_before:g}", f"{result.gpus_after:g}")
    yield f"GPUs: {moved} of a budget of {float(result.job.spec.budget.gpus):g}"
    yield from (f"{action} {kind} {name}" for action, kind, name in result.objects or ())
    if not result.differs:
        yield "The file changes nothing."


def document(result: Outcome, blind: str | None) -> dict[str, Any]:
    """For programs."""
    objects = None if result.objects is None else [dict(zip(OBJECT, one, strict=True)) for one in result.objects]
    metadata, budget = result.job.metadata, float(result.job.spec.budget.gpus)
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "exists": not result.new,
        "differs": result.differs,
        "fields": [{"path": one.path, "before": one.before, "after": one.after} for one in result.fields],
        "decision": decision(result.decision),
        "unreadable": blind,
        "gpus": {"before": result.gpus_before, "after": result.gpus_after, "budget": budget},
        "replicas": [_replicas(one) for one in result.replicas],
        "objects": objects,
    }


def _replicas(one: Replicas) -> dict[str, Any]:
    return {
        "stage": one.stage.field,
        "profile": one.profile,
        "before": one.before,
        "after": one.after,
        "pods": one.pods.value,
    }


def _row(one: Replicas) -> tuple[str | Tinted, ...]:
    moved = _moved(str(one.before), str(one.after))
    return one.stage.field, one.profile, moved, Tinted(one.pods.value, TONES.get(one.pods))


def _field(one: Field) -> str:
    return f"{one.path}: {_value(one.before)} -> {_value(one.after)}"


def _value(value: Any) -> str:
    return "default" if value is None else json.dumps(value, ensure_ascii=False)


def _moved(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
