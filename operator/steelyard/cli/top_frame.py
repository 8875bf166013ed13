"""Pure: one look at a job -> the frame that `steelyard top` draws, and the same as a document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from steelyard.api.names import Stage
from steelyard.cli import codes, status_rows
from steelyard.cli.ages import age
from steelyard.cli.jobs import Job
from steelyard.cli.output import Cell, Column, Tinted, Tone, paint, table

WINDOW = "1m"
LONGEST_BAR, SHORTEST_BAR = 30, 10
BESIDE_BAR = 70
"""Columns that the rest of a row takes, with figures of the usual length."""
STATES: Mapping[str, tuple[str, str]] = {
    "busy": ("B", "works"),
    "tokens": ("t", "waits for samplers"),
    "tool": ("T", "runs tools"),
    "starved": ("·", "has no input"),
    "blocked": ("#", "output full"),
    "paced": ("p", "admission closed"),
    "sync": ("w", "loads weights"),
    "drain": ("d", "drains"),
}
"""State of a slot -> its letter in a bar, and what it means."""
COLUMNS = tuple(Column(name) for name in ("STAGE", "READY", "GPUS", "TIME", "UTIL", "WAIT", "BACKLOG", "UNITS/S"))
BINDS = "> "
"""Before the name of the bottleneck, where the narrowest terminal shows it."""


def queries(namespace: str, job: str) -> dict[str, str]:
    """What Prometheus is asked for each frame."""
    mine = f'namespace="{namespace}",pod=~"{job}-.*"'
    staleness = "steelyard_staleness"
    return {
        "shares": f"sum by (stage, state) (rate(steelyard_stage_seconds_total{{{mine}}}[{WINDOW}]))",
        "staleness": f"sum(rate({staleness}_sum{{{mine}}}[5m])) / sum(rate({staleness}_count{{{mine}}}[5m]))",
        "tokens": f"sum(rate(vllm:generation_tokens_total{{{mine}}}[{WINDOW}]))",
    }


@dataclass(frozen=True)
class Frame:
    """Everything that is drawn."""

    job: Job
    at: datetime
    shares: Mapping[Stage, Mapping[str, float]] = field(default_factory=dict)
    """Stage -> state -> share of its slots' time; empty where Prometheus says nothing."""
    staleness: float | None = None
    tokens: float | None = None
    """Generated per second; the status' own figure is up to a minute old."""
    waiting: Sequence[str] = ()
    """Pods that are not ready, each with the reason."""
    blind: str | None = None
    """Why there is nothing from Prometheus."""


def shares_of(lines: Sequence[tuple[Mapping[str, str], float]]) -> dict[Stage, dict[str, float]]:
    """Rates by stage and state -> shares that add up to 1."""
    seconds: dict[Stage, dict[str, float]] = {}
    for labels, value in lines:
        if labels.get("stage") in set(Stage):
            seconds.setdefault(Stage(labels["stage"]), {})[labels.get("state", "")] = value
    totals = {stage: sum(states.values()) for stage, states in seconds.items()}
    return {
        stage: {state: value / totals[stage] for state, value in states.items()}
        for stage, states in seconds.items()
        if totals[stage] > 0
    }


def bar(shares: Mapping[str, float], length: int = LONGEST_BAR) -> str:
    """Exactly `length` letters, by the largest remainders."""
    exact = {state: shares.get(state, 0.0) * length for state in STATES}
    counts = {state: int(value) for state, value in exact.items()}
    by_rest = sorted(exact, key=lambda state: counts[state] - exact[state])
    for state in by_rest[: length - sum(counts.values())]:
        counts[state] += 1
    return "".join(STATES[state][0] * count for state, count in counts.items())[:length]


def lines(frame: Frame, width: int | None = None) -> list[str]:
    """The frame as text, for a terminal of so many columns; as wide as it gets where there is none."""
    length = LONGEST_BAR if width is None else max(min(LONGEST_BAR, width - BESIDE_BAR), SHORTEST_BAR)
    bars = {stage: bar(shares, length) for stage, shares in frame.shares.items()}
    return [*_head(frame, width), "", *_stages(frame, bars, length), "", *_below(frame, bars, width)]


def _head(frame: Frame, width: int | None) -> Iterator[str]:
    job = frame.job
    tone = status_rows.TONES.get(job.phase)
    yield (
        f"{paint(f'{job.namespace}/{job.name}', Tone.STRONG)}  {paint(job.phase, tone)}  "
        f"{job.mode}, {job.revision or 'no revision yet'}"
    )
    step = f"step {'-' if job.step is None else job.step}/{job.steps or '-'}"
    gpus = f"GPUs {job.gpus_used or '-'}/{job.gpus_budget or '-'}"
    tokens = f"{frame.tokens:.3g}" if frame.tokens is not None else job.stages[Stage.SAMPLER].throughput or "-"
    staleness = "-" if frame.staleness is None else f"{frame.staleness:.2g} versions"
    rates = f"{job.throughput or '-'} trajectories/s  {tokens} tokens/s  staleness {staleness}"
    yield from _wrapped(f"{step}  reward {job.reward or '-'}  {gpus}  {rates}", width)


def _stages(frame: Frame, bars: Mapping[Stage, str], length: int) -> list[str]:
    rows: list[list[Cell]] = []
    for stage in Stage:
        figures = frame.job.stages[stage]
        binds = frame.job.bottleneck is stage
        drains = f" (-{figures.draining})" if figures.draining else ""
        rows.append(
            [
                Tinted(f"{BINDS if binds else '  '}{stage.field}", Tone.BAD if binds else None),
                f"{figures.ready}/{figures.desired}{drains}",
                figures.gpus or "",
                bars.get(stage) or "no data".ljust(length),
                _percent(figures.utilization),
                _percent(figures.wait),
                figures.backlog or "",
                figures.throughput or "",
            ]
        )
    return table(COLUMNS, rows)


def _percent(share: str | None) -> str:
    return "" if share is None else f"{float(share) * 100:.0f} %"


def _below(frame: Frame, bars: Mapping[Stage, str], width: int | None) -> Iterator[str]:
    drawn = set("".join(bars.values()))
    if drawn:
        yield from _wrapped("  ".join(f"{letter} {said}" for letter, said in STATES.values() if letter in drawn), width)
    for text in status_rows.words(frame.job)[:4]:
        if not text.startswith("Decision"):
            yield from _wrapped(text, width)
    for text in frame.waiting:
        yield from _wrapped(text, width)
    yield ""
    for one in frame.job.decisions:
        before = f"{age(one.at, frame.at):>7} ago  "
        first, *rest = _wrapped(f"{before}{one.rule}  {one.reason}", width, " " * len(before))
        yield first.replace(one.rule, paint(one.rule, Tone.STRONG), 1)
        yield from rest
    if frame.blind:
        yield ""
        code = codes.NO_PROMETHEUS
        yield from _wrapped(f"{code.name} no metrics: {frame.blind} (see {code.anchor})", width)


def _wrapped(text: str, width: int | None, indent: str = "  ") -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [text]


def document(frame: Frame) -> dict[str, Any]:
    """For programs: a job's status, and what Prometheus adds."""
    return {
        **status_rows.document(frame.job, ()),
        "timeShares": {stage.field: dict(states) for stage, states in frame.shares.items()},
        "staleness": frame.staleness,
        "waitingPods": list(frame.waiting),
        "unreadable": frame.blind,
    }
