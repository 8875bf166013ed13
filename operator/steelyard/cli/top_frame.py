"""Pure: one look at a job -> the frame that `steelyard top` draws, and the same as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from steelyard.api.names import Stage
from steelyard.cli import status_rows
from steelyard.cli.ages import age
from steelyard.cli.jobs import Job
from steelyard.cli.output import Cell, Column, Tinted, Tone, paint, table

WINDOW = "1m"
BAR = 30
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
COLUMNS = tuple(Column(name) for name in ("STAGE", "READY", "GPUS", "WHERE ITS TIME GOES", "UTIL", "WAIT", "BACKLOG",
                                          "UNITS/S", ""))  # fmt: skip


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


def bar(shares: Mapping[str, float]) -> str:
    """Exactly `BAR` letters, by the largest remainders."""
    exact = {state: shares.get(state, 0.0) * BAR for state in STATES}
    counts = {state: int(value) for state, value in exact.items()}
    by_rest = sorted(exact, key=lambda state: counts[state] - exact[state])
    for state in by_rest[: BAR - sum(counts.values())]:
        counts[state] += 1
    return "".join(STATES[state][0] * count for state, count in counts.items())[:BAR]


def lines(frame: Frame) -> list[str]:
    """The frame as text."""
    return [*_head(frame), "", *_stages(frame), "", *_below(frame)]


def _head(frame: Frame) -> Iterator[str]:
    job = frame.job
    tone = status_rows.TONES.get(job.phase)
    step = f"step {'-' if job.step is None else job.step}/{job.steps or '-'}"
    gpus = f"GPUs {job.gpus_used or '-'}/{job.gpus_budget or '-'}"
    yield (
        f"{paint(f'{job.namespace}/{job.name}', Tone.STRONG)}  {paint(job.phase, tone)}  {step}  "
        f"reward {job.reward or '-'}  {gpus}  {job.mode}, {job.revision or 'no revision yet'}"
    )
    tokens = f"{frame.tokens:.3g}" if frame.tokens is not None else job.stages[Stage.SAMPLER].throughput or "-"
    staleness = "-" if frame.staleness is None else f"{frame.staleness:.2g} versions"
    yield f"{job.throughput or '-'} trajectories/s  {tokens} tokens/s  staleness {staleness}"


def _stages(frame: Frame) -> list[str]:
    rows: list[list[Cell]] = []
    for stage in Stage:
        figures = frame.job.stages[stage]
        binds = frame.job.bottleneck is stage
        shares = frame.shares.get(stage)
        drains = f" (-{figures.draining})" if figures.draining else ""
        rows.append(
            [
                Tinted(stage.field, Tone.STRONG if binds else None),
                f"{figures.ready}/{figures.desired}{drains}",
                figures.gpus or "",
                bar(shares) if shares else "no data".ljust(BAR),
                _percent(figures.utilization),
                _percent(figures.wait),
                figures.backlog or "",
                figures.throughput or "",
                Tinted("<- bottleneck", Tone.BAD) if binds else " ",
            ]
        )
    return table(COLUMNS, rows)


def _percent(share: str | None) -> str:
    return "" if share is None else f"{float(share) * 100:.0f} %"


def _below(frame: Frame) -> Iterator[str]:
    yield "  ".join(f"{letter} {meaning}" for letter, meaning in STATES.values())
    for text in status_rows.words(frame.job)[:4]:
        if not text.startswith("Decision"):
            yield text
    yield from frame.waiting
    yield ""
    for one in frame.job.decisions:
        yield f"{age(one.at, frame.at):>7} ago  {paint(one.rule, Tone.STRONG)}  {one.reason}"
    if frame.blind:
        yield ""
        yield f"no metrics: {frame.blind}"


def document(frame: Frame) -> dict[str, Any]:
    """For programs: a job's status, and what Prometheus adds."""
    return {
        **status_rows.document(frame.job, ()),
        "timeShares": {stage.field: dict(states) for stage, states in frame.shares.items()},
        "staleness": frame.staleness,
        "waitingPods": list(frame.waiting),
        "unreadable": frame.blind,
    }
