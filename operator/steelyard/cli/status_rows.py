"""Pure: jobs as rows of a table, as words, and as documents for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from steelyard.api.names import Stage
from steelyard.cli.ages import age, clock
from steelyard.cli.jobs import Job, number, queue_position
from steelyard.cli.output import Cell, Column, Tinted, Tone, table
from steelyard.cli.screen import Line
from steelyard.cluster.kinds import Object

TONES = {
    "Running": Tone.GOOD, "Complete": Tone.GOOD, "Failed": Tone.BAD, "Degraded": Tone.BAD, "Stalled": Tone.BAD,
    "Starting": Tone.BUSY, "Pending": Tone.BUSY, "Waiting": Tone.BUSY, "Deleting": Tone.BUSY,
}  # fmt: skip
NAMESPACE = Column("NAMESPACE")
COLUMNS = (
    Column("NAME"), Column("PHASE"), Column("STEP"), Column("SAMPLER"), Column("ENV"), Column("REWARD"),
    Column("TRAINER"), Column("GPUS"), Column("TRAJ/S"), Column("TOK/S"), Column("BOTTLENECK"), Column("DECISION"),
    Column("SINCE"), Column("AGE"), Column("MODE", wide=True), Column("REVISION", wide=True),
    Column("MEAN-REWARD", wide=True), Column("TROUBLE", wide=True),
)  # fmt: skip
AGES = ("SINCE", "AGE")


def lines(
    jobs: Sequence[Job], pools: Sequence[Object], at: datetime, *, wide: bool, namespaces: bool, headers: bool
) -> list[Line]:
    """The table. `pools` tell waiting jobs their place."""
    columns = (NAMESPACE, *COLUMNS) if namespaces else COLUMNS
    rows = [[*([job.namespace] if namespaces else ()), *_row(job, pools, at)] for job in jobs]
    lasting = [index for index, column in enumerate(columns) if column.name not in AGES]
    said: list[object] = [tuple(row[index] for index in lasting) for row in rows]
    texts = table(columns, rows, wide=wide, headers=headers)
    return [Line(text, key) for text, key in zip(texts, ["header", *said] if headers else said, strict=True)]


def _row(job: Job, pools: Sequence[Object], at: datetime) -> list[Cell]:
    figures = job.stages
    stages = [f"{figures[stage].ready}/{figures[stage].desired}" if figures[stage].profiles else "" for stage in Stage]
    latest = job.decisions[0] if job.decisions else None
    place = queue_position(job, pools)
    return [
        job.name,
        Tinted(f"{job.phase} ({place[0]} of {place[1]})" if place else job.phase, TONES.get(job.phase)),
        f"{'-' if job.step is None else job.step}/{'-' if job.steps is None else job.steps}",
        *stages,
        f"{job.gpus_used or '-'}/{job.gpus_budget or '-'}",
        job.throughput or "",
        figures[Stage.SAMPLER].throughput or "",
        job.bottleneck.field if job.bottleneck else "",
        latest.rule if latest else "",
        age(latest.at, at) if latest else "",
        age(job.created, at),
        job.mode,
        job.revision or "",
        job.reward or "",
        ", ".join(f"{name}: {found.reason}" for name, found in job.troubles),
    ]


def words(job: Job) -> list[str]:
    """What the row of a job has no room for."""
    said = [f"{name}: {found.reason}: {found.message}" for name, found in job.troubles]
    if job.waits_for_gpus:
        said.append(f"Waiting: {job.conditions['QuotaReserved'].message}")
    if job.bottleneck and job.evidence:
        said.append(f"Bottleneck: {job.bottleneck.field}: {job.evidence}")
    if job.decisions:
        said.append(f"Decision: {job.decisions[0].rule}: {job.decisions[0].reason}")
    return said


def document(job: Job, pools: Sequence[Object]) -> dict[str, Any]:
    """A job for programs. Figures are numbers; what is not known is null."""
    place = queue_position(job, pools)
    return {
        "namespace": job.namespace,
        "name": job.name,
        "created": clock(job.created),
        "phase": job.phase,
        "mode": job.mode,
        "queue": {"pool": job.pool, "position": place[0], "waiting": place[1]} if place else None,
        "conditions": {
            name: {"status": one.holds, "reason": one.reason, "message": one.message}
            for name, one in job.conditions.items()
        },
        "revision": job.revision,
        "training": {"step": job.step, "steps": job.steps, "reward": number(job.reward)},
        "trajectoriesPerSecond": number(job.throughput),
        "tokensPerSecond": number(job.stages[Stage.SAMPLER].throughput),
        "bottleneck": {"stage": job.bottleneck.field, "evidence": job.evidence} if job.bottleneck else None,
        "gpus": {"used": number(job.gpus_used), "budget": number(job.gpus_budget)},
        "stages": {stage.field: _stage(job, stage) for stage in Stage},
        "decisions": [
            {"time": clock(one.at), "action": one.action, "kind": one.kind, "reason": one.reason}
            for one in job.decisions
        ],
    }


def _stage(job: Job, stage: Stage) -> dict[str, Any]:
    figures = job.stages[stage]
    return {
        "ready": figures.ready,
        "desired": figures.desired,
        "draining": figures.draining,
        "gpus": number(figures.gpus),
        "throughput": number(figures.throughput),
        "utilization": number(figures.utilization),
        "backlog": number(figures.backlog),
        "wait": number(figures.wait),
    }
