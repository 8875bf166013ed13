"""The comparison as one HTML file: inline SVG, no script, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.api import Stage
from steelyard.pages import templates
from steelyard.pages.charts import WIDTH, Axis, Frame, Point
from steelyard.twin.compare import Played
from steelyard.twin.engine import START
from steelyard.twin.policies.split import Units
from steelyard.twin.run import Run

SMOOTH_STEPS = 5
"""Throughput is drawn as the mean over so many steps; a batch at a time is noise."""


@dataclass(frozen=True)
class Band:
    """One stage's GPUs over the run, as a polygon on top of the stages before it."""

    stage: str
    points: str


@dataclass(frozen=True)
class Panel:
    """Everything the page says about one policy."""

    policy: str
    run: Run
    ratio: float
    """Its throughput over Steelyard's."""
    line: str
    bands: tuple[Band, ...]
    moves: tuple[float, ...]
    """Where a change was applied, in drawing units."""


def page(played: Sequence[Played]) -> str:
    """One self-contained file. The first policy is the one the others are compared with."""
    first = played[0].run
    last = first.profile.steps
    steps = Axis(0.0, last, tuple(mark for mark in Axis.to(last).marks if mark.at <= last))
    rates = Axis.to(max(rate for one in played for _, rate in throughputs(one.run)))
    budget = float(first.profile.gpus)
    throughput = Frame(steps, rates, 400.0)
    gpus = Frame(steps, Axis.at(0.0, budget / 2, budget), 260.0)
    return (
        templates("steelyard.twin")
        .get_template("compare.html.j2")
        .render(
            profile=first.profile,
            seed=first.seed,
            panels=[_panel(one, first, throughput, gpus) for one in played],
            throughput=throughput,
            gpus=gpus,
            fastest=max(one.run.throughput for one in played),
            decisions=[(at - START, decision) for at, decision in played[0].decisions],
            stages=[stage.value for stage in STAGES],
            width=WIDTH,
        )
    )


STAGES = (Stage.TRAINER, Stage.SAMPLER, Stage.REWARD_SERVER)
"""The order in which GPUs are stacked, from the bottom."""


def throughputs(run: Run) -> Iterator[Point]:
    """(step, trajectories per second) at each step end, over the last steps."""
    ends = (START, *run.step_ends)
    for index in range(1, len(ends)):
        since = max(index - SMOOTH_STEPS, 0)
        trained = run.trained / len(run.step_ends) * (index - since)
        yield index, trained / (ends[index] - ends[since])


def _panel(played: Played, first: Run, throughput: Frame, gpus: Frame) -> Panel:
    run = played.run
    return Panel(
        policy=played.policy,
        run=run,
        ratio=run.throughput / first.throughput,
        line=throughput.path(throughputs(run)),
        bands=tuple(_bands(run, gpus)),
        moves=tuple(gpus.x(change.step) for change in run.changes[1:]),
    )


def _bands(run: Run, frame: Frame) -> Iterator[Band]:
    """Each stage's GPUs on top of the stages before it."""
    edges = [float(change.step) for change in run.changes] + [float(len(run.step_ends))]
    held = [_gpus(run, index) for index in range(len(run.changes))]
    layers = frame.stack(edges, list(zip(*held, strict=True)))
    for stage, shapes in zip(STAGES, layers, strict=True):
        yield from (Band(stage.value, points) for points in shapes)


def _gpus(run: Run, index: int) -> tuple[float, ...]:
    """GPUs by stage after a change, in the order of STAGES; colocated phases share all of them."""
    profile = run.profile
    units = Units.of(profile, run.changes[index].allocation)
    share = min(profile.gpus / units.gpus(profile), 1.0)
    trainer, sampler, reward = (
        units.blocks * profile.trainer.block,
        units.sampler * profile.sampler.gpus,
        units.reward * profile.reward.gpus,
    )
    return trainer * share, sampler * share, reward * share
