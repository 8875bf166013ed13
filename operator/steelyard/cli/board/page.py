"""How the dashboard looks: jobs as a table, and one job with its stages, its course and its decisions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from steelyard.api import AllocationRevision, Stage
from steelyard.api.names import DEFAULT_PROFILE
from steelyard.balance.words import changes, instant
from steelyard.cli.ages import age, duration
from steelyard.cli.board.data import Ledger, Sample
from steelyard.cli.jobs import Job, StageFigures, number
from steelyard.pages import templates
from steelyard.pages.charts import Axis, Frame

REFRESH_SECONDS = 5
HEIGHT = 120.0
LEAST_SPAN_SECONDS = 300.0
"""The time axis is at least so long, so that the first minutes do not look like a storm."""
GAP_SECONDS = 4.0 * REFRESH_SECONDS
"""Between two samples so far apart no page was open."""
SHOWN = 12
"""Entries of the ledger."""
ORDER = (Stage.ENVIRONMENT, Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)
"""As trajectories pass through."""

QUEUED = (Stage.ENVIRONMENT, Stage.REWARD_SERVER, Stage.TRAINER)


@dataclass(frozen=True)
class Context:
    """What every page says about itself."""

    base: str
    """Path behind which the pages lie, secret included."""
    where: str
    """Whose jobs these are."""
    now: datetime
    live: bool
    """Whether the browser asks again by itself."""


def listing(context: Context, jobs: Sequence[Job]) -> str:
    """Every job, a row each."""
    return _render("jobs.html.j2", context, jobs=jobs, stages=ORDER, age=_age(context))


def detail(context: Context, job: Job, samples: Sequence[Sample], ledger: Ledger) -> str:
    """One job."""
    return _render(
        "job.html.j2",
        context,
        job=job,
        stages=[_stage(job, stage, samples) for stage in ORDER],
        throughput=_chart("trajectories trained", "a second", samples, lambda one: one.throughput),
        backlogs=_backlogs(samples),
        ledger=ledger,
        held=_held(ledger, context.now),
        rows=[_row(one, context.now) for one in ledger.revisions[:SHOWN]],
        age=_age(context),
        number=number,
    )


def trouble(context: Context, sentence: str) -> str:
    """Why nothing can be shown now."""
    return _render("trouble.html.j2", context, sentence=sentence)


def _render(template: str, context: Context, **values: object) -> str:
    return templates("steelyard.cli.board").get_template(template).render(
        context=context, refresh=REFRESH_SECONDS, **values
    )  # fmt: skip


def _age(context: Context) -> Callable[[datetime], str]:
    return lambda at: age(at, context.now)


@dataclass(frozen=True)
class StageView:
    """One stage as its panel shows it."""

    stage: Stage
    figures: StageFigures
    binds: bool
    used: float | None
    """Share of its slots' time that is work."""
    waits: float | None
    course: Chart | None

    @property
    def profiles(self) -> str:
        """Replicas, by GPU profile where there are any."""
        return ", ".join(
            f"{one.ready} of {one.desired}"
            + (f" {name}" if name != DEFAULT_PROFILE else "")
            + (f", {one.draining} draining" if one.draining else "")
            for name, one in self.figures.profiles.items()
            if one.desired or one.ready or one.draining or len(self.figures.profiles) == 1
        )


@dataclass(frozen=True)
class Chart:
    """One quantity over time."""

    name: str
    unit: str
    frame: Frame
    lines: tuple[str, ...]


def _stage(job: Job, stage: Stage, samples: Sequence[Sample]) -> StageView:
    figures = job.stages[stage]
    course = _chart(
        f"{stage} at work", "share", samples, lambda one: one.utilization.get(stage), Axis.at(0.0, 0.5, 1.0)
    )
    return StageView(stage, figures, job.bottleneck is stage, number(figures.utilization), number(figures.wait), course)


def _backlogs(samples: Sequence[Sample]) -> list[Chart]:
    """What waits before each stage that has a queue, where that is known."""

    def backlog(stage: Stage) -> Chart | None:
        return _chart(f"before {stage}", "trajectories", samples, lambda one: one.backlog.get(stage))

    return [chart for stage in QUEUED if (chart := backlog(stage)) is not None]


def _chart(
    name: str,
    unit: str,
    samples: Sequence[Sample],
    value: Callable[[Sample], float | None],
    up: Axis | None = None,
) -> Chart | None:
    """None while there is nothing to draw."""
    points = list(_with_gaps(samples, value))
    known = [one for _, one in points if one is not None]
    if not known:
        return None
    end = samples[-1].at
    across = Axis.time(min(samples[0].at, end - LEAST_SPAN_SECONDS), end)
    frame = Frame(across, up or Axis.to(max(*known, 0.0), 3), HEIGHT)
    lines = frame.line([at for at, _ in points], [one for _, one in points])
    return Chart(name, unit, frame, lines)


def _with_gaps(
    samples: Sequence[Sample], value: Callable[[Sample], float | None]
) -> Iterator[tuple[float, float | None]]:
    """Points of a line that breaks where nobody looked for a while."""
    before: float | None = None
    for one in samples:
        if before is not None and one.at - before > GAP_SECONDS:
            yield (before + one.at) / 2, None
        yield one.at, value(one)
        before = one.at


@dataclass(frozen=True)
class Row:
    """One entry of the ledger."""

    number: int
    since: str
    origin: str
    moves: str
    reason: str
    verdict: str
    evidence: str


def _row(revision: AllocationRevision, now: datetime) -> Row:
    spec, status = revision.spec, revision.status
    created = revision.metadata.creation_timestamp or status.applied_time
    move = spec.allocation
    return Row(
        spec.number,
        age(created, now) if created else "",
        spec.origin,
        changes(move.before, move.after) if spec.parent else str(move.after),
        spec.reason,
        status.verdict or status.phase,
        status.evidence or "",
    )


def _held(ledger: Ledger, now: datetime) -> str | None:
    """What a hold in force says, with how to end it."""
    hold = ledger.held(now)
    if hold is None:
        return None
    ends = instant(hold.spec.expires_at)
    left = f"for {duration(ends - now.timestamp())} more" if ends else "until it is resumed"
    return f"{hold.metadata.name} is held {left}: {hold.spec.reason}"
