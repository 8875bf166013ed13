"""An audit as JSON: the figures for programs, and the record they come from, so that it can be audited again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.audit.histogram import Spread
from steelyard.audit.record import write
from steelyard.audit.report import Audit, questions, verdict


def figures(of: Audit) -> dict[str, Any]:
    """Figures that were not measured are null."""
    record = of.record
    return {
        "name": record.name,
        "namespace": record.namespace,
        "verdict": verdict(of),
        "questions": [{"question": one.question, "answer": one.answer, "more": one.more} for one in questions(of)],
        "seconds": record.seconds,
        "throughput": of.throughput,
        "trained": of.trained,
        "bottleneck": {"stage": of.bottleneck[0].field, "evidence": of.bottleneck[1]} if of.bottleneck else None,
        "biggestWait": _wait(of),
        "gpuHours": _hours(of),
        "versusStatic": _static(of),
        "reallocation": {
            "remedy": of.advice.remedy if of.advice else None,
            "mostGain": of.most_gain,
            "mostGainWithOtherBounds": of.wider_gain,
            "gpuHours": of.gain_hours,
            "cost": of.cost(of.gain_hours),
        },
        "way": [
            {"part": part.name, "seconds": part.seconds, "waits": part.waits, **_spread(part.spread)} for part in of.way
        ],
        "tools": [{"tool": tool.name, "failed": tool.failed, **_spread(tool.spread)} for tool in of.tools],
        "waits": {stage.field: dict(waits.shares) for stage, waits in of.waits.items()},
        "findings": [
            {
                "layer": layer.name,
                "symptom": found.symptom,
                "stage": found.stage.field if found.stage else None,
                "evidence": found.evidence,
                "lookFirst": found.look_first,
                "windows": count,
            }
            for layer in of.layers
            for found, count in layer.findings
        ],
        "revisions": [
            {
                "name": move.name,
                "origin": move.origin,
                "change": move.what,
                "predictedGain": move.predicted,
                "throughputBefore": move.before,
                "throughputAfter": move.after,
                "transitionCostSeconds": move.cost_seconds,
                "verdict": move.verdict,
            }
            for move in of.moves
        ],
        "recommendedReplicas": {
            one.stage.field: {"min": one.low, "max": one.high, "nowMin": one.now_low, "nowMax": one.now_high}
            for one in of.bounds
        },
        "missing": list(record.missing),
        "record": write(record),
    }


def _wait(of: Audit) -> Mapping[str, Any] | None:
    wait = of.biggest
    if wait is None:
        return None
    return {
        "stage": wait.waiter.field,
        "state": wait.state,
        "for": wait.target,
        "share": wait.share,
        "gpuHours": wait.gpu_hours,
    }


def _hours(of: Audit) -> Mapping[str, Any] | None:
    if of.time is None:
        return None
    return {
        "held": of.time.held,
        **{which: of.time.of(which) for which in ("busy", "waiting", "idle")},
        "wasted": of.time.wasted,
        "wastedCost": of.cost(of.time.wasted),
        "byStage": {stage.field: dict(states) for stage, states in of.time.hours.items()},
    }


def _static(of: Audit) -> Mapping[str, Any] | None:
    static = of.static
    if static is None:
        return None
    return {
        "allocation": static.allocation.model_dump(mode="json", by_alias=True, exclude_none=True),
        "moves": static.moves,
        "gpuHours": static.gpu_hours,
        "staticGpuHours": static.static_gpu_hours,
        "savedGpuHours": static.saved,
        "savedCost": of.cost(static.saved),
        "speedup": static.speedup,
        "unknownSeconds": static.unknown_seconds,
    }


def _spread(spread: Spread) -> Mapping[str, float | None]:
    return {"count": spread.count, "mean": spread.mean, "p50": spread.p50, "p95": spread.p95, "p99": spread.p99}
