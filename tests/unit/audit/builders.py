"""Records of one job, small enough to compute by hand: a grid of 15 s, one line for each thing a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from steelyard.api import AllocationRevision, RevisionPhase, Stage
from steelyard.audit.record import Grid, Line, Record, Total
from tests.builders import a_job, a_revision, an_allocation

START = 1_800_000_000.0
STEP = 15.0


def a_line(values: Sequence[float | None], **labels: str) -> Line:
    return Line(labels, tuple(values))


def states(stage: str, profile: str = "whole", **rates: Sequence[float | None]) -> tuple[Line, ...]:
    """Slot seconds a second, by state."""
    return tuple(a_line(values, stage=stage, profile=profile, state=state) for state, values in rates.items())


def replicas(values: Sequence[float | None], stage: str = "sampler", profile: str = "whole") -> Line:
    return a_line(values, stage=stage, profile=profile)


def a_record(
    lines: Mapping[str, Sequence[Line]] | None = None,
    totals: Mapping[str, Sequence[Total]] | None = None,
    *,
    count: int = 4,
    **changes: Any,
) -> Record:
    """`count` instants of 15 s; the job is the default one of tests.builders."""
    return Record(
        name="calculator",
        namespace="default",
        start=START,
        end=START + count * STEP,
        grid=Grid(START + STEP, STEP, count),
        lines={figure: tuple(found) for figure, found in (lines or {}).items()},
        totals={figure: tuple(found) for figure, found in (totals or {}).items()},
        **{"job": a_job(), **changes},
    )


def at(seconds: float) -> str:
    """An instant so long after START, as the API writes it."""
    return datetime.fromtimestamp(START + seconds, UTC).isoformat().replace("+00:00", "Z")


def applied(
    number: int,
    seconds: float,
    samplers: int,
    *,
    before: int | None = None,
    measured: tuple[str, str] | None = None,
    cost: tuple[float, str] | None = None,
    verdict: str | None = None,
    **more: Any,
) -> AllocationRevision:
    """A revision in force from START + `seconds`: so many samplers, where `before` it had as many.

    `measured`: throughput before and after. `cost`: when it had settled, and what it had cost by then.
    """
    status: dict[str, Any] = {"appliedTime": at(seconds), "verdict": verdict}
    figures: dict[str, str] = {}
    if measured:
        figures |= {"throughputBefore": measured[0], "throughputAfter": measured[1]}
    if cost:
        status["measuringTime"] = at(cost[0])
        figures["transitionCostSeconds"] = cost[1]
    if figures:
        status["measured"] = figures
    return a_revision(
        number,
        an_allocation({Stage.SAMPLER: {"whole": samplers}}),
        before=an_allocation({Stage.SAMPLER: {"whole": before}}) if before is not None else None,
        phase=RevisionPhase.JUDGED if verdict else RevisionPhase.SETTLING,
        status=status,
        **more,
    )
