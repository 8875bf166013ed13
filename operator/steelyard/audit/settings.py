"""What was audited, under which settings, by which versions; and the recommended bounds as YAML to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from steelyard.api.names import API_VERSION
from steelyard.audit.glance import Bounds
from steelyard.audit.record import Record
from steelyard.audit.report import Audit


def settings(of: Audit) -> Mapping[str, str]:
    """Name -> value, in reading order."""
    record = of.record
    found = {
        "job": f"{record.namespace}/{record.name}",
        "from": _time(record.start),
        "to": _time(record.end),
        "resolution": f"{record.grid.step:g} s, {record.grid.count} instants",
        "windows looked at": str(len(record.windows)),
        "price of a GPU-hour": "not given" if of.price is None else f"{of.price:g}",
        "read by": f"steelyard {record.made_by}" if record.made_by else "unknown",
    }
    return {**found, **_job(record)}


def _job(record: Record) -> Mapping[str, str]:
    if record.job is None:
        return {"spec": "not known: the job is gone, or may not be read"}
    meta, spec = record.job.metadata, record.job.spec
    scaling, algorithm = spec.scaling, spec.algorithm
    return {
        "API": API_VERSION,
        "UID, generation": f"{meta.uid or 'unknown'}, {meta.generation or 'unknown'}",
        "budget": f"{float(spec.budget.gpus):g} GPUs",
        "algorithm": f"{algorithm.name}, {algorithm.prompts_per_step} prompts x {algorithm.group_size} a step, "
        f"{algorithm.steps} steps, staleness up to {algorithm.max_staleness}, seed {algorithm.seed}",
        "scaling": f"{scaling.mode}, {scaling.objective}, every {scaling.interval_seconds} s, gain from "
        f"{scaling.min_gain_percent} %, horizon {scaling.horizon_seconds} s, cooldown {scaling.cooldown_seconds} s",
        "evaluation": f"{scaling.evaluation.steps} steps after {scaling.evaluation.settle_seconds} s",
        "checkpoints": f"every {spec.checkpoints.every_steps} steps",
    }


def yaml_of(bounds: Sequence[Bounds]) -> str:
    """A patch of the job's spec with the bounds that should change; empty when none should."""
    changed = [one for one in bounds if one.changed]
    if not changed:
        return ""
    lines = ["spec:", "  stages:"]
    for one in changed:
        lines += [
            f"    {one.stage.field}:",
            f"      replicas: {{min: {one.low}, max: {one.high}}}   # now {one.now_low} to {one.now_high}; {one.why}",
        ]
    return "\n".join(lines) + "\n"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
