"""What one rung showed, and all of them side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from statistics import fmean, quantiles
from typing import Any

from steelyard.api import parse_quantity
from steelyard.api.names import LABEL_JOB
from steelyard.balance.words import number
from steelyard.children.common import ANNOTATION_GPUS
from steelyard.cli.output import Column, table
from steelyard.cli.tracing.story import Share, Story
from steelyard.cluster.kinds import Object

WITHIN = tuple(share for share in Share if share is not Share.TASKS)
"""Where the time of a trajectory goes once it is begun: more tasks are dispatched ahead than there are slots."""
WORTH_SAYING = 1.2
"""Longer by less is noise of so few trajectories."""


@dataclass(frozen=True)
class Scene:
    """A namespace at one moment: the rung's own pods, and what else was going on."""

    own_pods: int = 0
    own_restarts: int = 0
    own_failed: int = 0
    other_pods: int = 0
    other_gpus: float = 0.0
    pending: int = 0
    warnings: int = 0
    """Warnings about the rung's own objects."""


def scene(pods: Iterable[Object], events: Iterable[Object], job: str) -> Scene:
    """Count pods and warnings. GPUs are those that pods of Steelyard's jobs take from their budgets."""
    pods = list(pods)
    own = [pod for pod in pods if _labels(pod).get(LABEL_JOB) == job]
    others = [pod for pod in pods if _labels(pod).get(LABEL_JOB) != job and _phase(pod) in ("Pending", "Running")]
    names = {pod["metadata"]["name"] for pod in own} | {job}
    return Scene(
        own_pods=len(own),
        own_restarts=sum(_restarts(pod) for pod in own),
        own_failed=sum(_phase(pod) == "Failed" for pod in own),
        other_pods=len(others),
        other_gpus=float(sum((_gpus(pod) for pod in others), Fraction(0))),
        pending=sum(_phase(pod) == "Pending" for pod in pods),
        warnings=sum(
            event.get("type") == "Warning" and (event.get("involvedObject") or {}).get("name") in names
            for event in events
        ),
    )


def _labels(pod: Object) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def _gpus(pod: Object) -> Fraction:
    try:
        return parse_quantity((pod["metadata"].get("annotations") or {}).get(ANNOTATION_GPUS, "0"))
    except ValueError:
        return Fraction(0)


@dataclass(frozen=True)
class Figures:
    """What the spans of a rung say.

    Seconds are means over the trajectories that were trained and begun once the job was ready: before, they wait for
    samplers that are still starting.
    """

    trajectories: int = 0
    trained: int = 0
    failed: int = 0
    timed_out: int = 0
    retried: int = 0
    steps: int = 0
    step_seconds: float | None = None
    """Time of a training step, waits apart."""
    interval_seconds: float | None = None
    """Time between the ends of two steps."""
    median_seconds: float | None = None
    """A trajectory, from the beginning of its episode to the end of its step."""
    slow_seconds: float | None = None
    """The 95th percentile of the same."""
    shares: Mapping[Share, float] = field(default_factory=dict)


def figures(stories: Sequence[Story], ready: float = 0.0) -> Figures:
    """Fold the trajectories of a rung, which was ready at `ready` (unix seconds)."""
    trained = [story for story in stories if story.outcome == "trained" and story.begun >= ready]
    steps: dict[int, list[tuple[float, float]]] = {}
    for story in trained:
        if (train := story.last("train")) is not None:
            steps.setdefault(int(train.about["step"]), []).append((train.start, train.end))
    ends = sorted(max(end for _, end in spans) for spans in steps.values())
    lengths = [max(end for _, end in spans) - min(start for start, _ in spans) for spans in steps.values()]
    seconds = sorted(story.end - story.begun for story in trained)
    return Figures(
        trajectories=len(stories),
        trained=len(trained),
        failed=sum(story.outcome == "failed" for story in stories),
        timed_out=sum(story.outcome == "timeout" for story in stories),
        retried=sum(not story.id.endswith("/0") for story in stories),
        steps=len(steps),
        step_seconds=fmean(lengths) if lengths else None,
        interval_seconds=(ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else None,
        median_seconds=_quantile(seconds, 50),
        slow_seconds=_quantile(seconds, 95),
        shares={share: fmean(story.shares.get(share, 0.0) for story in trained) for share in Share} if trained else {},
    )


def _quantile(ordered: Sequence[float], percent: int) -> float | None:
    if len(ordered) < 2:
        return ordered[0] if ordered else None
    return quantiles(ordered, n=100, method="inclusive")[percent - 1]


@dataclass(frozen=True)
class Record:
    """One rung: what was there before it, what it showed, what was there at its end."""

    title: str
    job: str
    before: Scene
    after: Scene
    figures: Figures
    ready_seconds: float | None
    """From its creation until all replicas were ready."""
    bottleneck: str | None = None
    findings: tuple[str, ...] = ()
    failure: str | None = None
    """Why it came to no end, None when it did."""


def as_item(record: Record) -> dict[str, Any]:
    """For programs; keys as in the resources, durations in seconds."""
    found = record.figures
    return {
        "rung": record.title,
        "job": record.job,
        "failure": record.failure,
        "readySeconds": record.ready_seconds,
        "trajectories": found.trajectories,
        "trained": found.trained,
        "failed": found.failed,
        "timedOut": found.timed_out,
        "retried": found.retried,
        "steps": found.steps,
        "stepSeconds": found.step_seconds,
        "stepIntervalSeconds": found.interval_seconds,
        "medianSeconds": found.median_seconds,
        "slowSeconds": found.slow_seconds,
        "shares": {share.key: seconds for share, seconds in found.shares.items()},
        "bottleneck": record.bottleneck,
        "findings": list(record.findings),
        "before": _scene(record.before),
        "after": _scene(record.after),
    }


def _scene(scene: Scene) -> dict[str, Any]:
    return {
        "pods": scene.own_pods,
        "restarts": scene.own_restarts,
        "failedPods": scene.own_failed,
        "warnings": scene.warnings,
        "pendingPods": scene.pending,
        "otherPods": scene.other_pods,
        "otherGpus": scene.other_gpus,
    }


def compared(records: Sequence[Record]) -> list[str]:
    """All rungs side by side, one measure a line."""
    columns = [Column("SECONDS, MEANS UNLESS SAID"), *(Column(record.title.upper()) for record in records)]
    figures = [record.figures for record in records]
    rows = [
        ["until ready", *(_figure(record.ready_seconds) for record in records)],
        ["a trajectory, median", *(_figure(found.median_seconds) for found in figures)],
        ["a trajectory, 95th percentile", *(_figure(found.slow_seconds) for found in figures)],
        *(
            [f"  {share}", *(_figure(found.shares.get(share)) for found in figures)]
            for share in Share
            if any(found.shares.get(share) for found in figures)
        ),
        ["a training step", *(_figure(found.step_seconds) for found in figures)],
        ["from step to step", *(_figure(found.interval_seconds) for found in figures)],
        ["trajectories trained", *(str(found.trained) for found in figures)],
        ["  failed, timed out, retried", *(f"{one.failed}, {one.timed_out}, {one.retried}" for one in figures)],
        ["restarts, failed pods, warnings", *(_accidents(record.after) for record in records)],
        ["other pods before, after", *(f"{one.before.other_pods}, {one.after.other_pods}" for one in records)],
        ["bottleneck", *(record.bottleneck or "" for record in records)],
    ]
    return table(columns, rows)


def _figure(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def _accidents(scene: Scene) -> str:
    return f"{scene.own_restarts}, {scene.own_failed}, {scene.warnings}"


def told(records: Sequence[Record]) -> list[str]:
    """What the comparison says, in sentences."""
    said = [f"{record.title}: stopped: {record.failure}" for record in records if record.failure]
    done = [record for record in records if record.failure is None and record.figures.shares]
    for before, after in pairwise(done):
        said += _grown(before, after)
    if done:
        last = done[-1]
        unlucky = last.figures.failed + last.figures.timed_out
        if unlucky:
            said.append(f"{last.title}: {unlucky} of {last.figures.trajectories} trajectories failed or timed out")
        said += [f"{last.title}: {finding}" for finding in last.findings]
    return said


def _grown(before: Record, after: Record) -> list[str]:
    """Where the longer life of a trajectory comes from."""
    old, new = before.figures, after.figures
    if not old.median_seconds or not new.median_seconds or new.median_seconds < WORTH_SAYING * old.median_seconds:
        return []
    shares = {share: (old.shares.get(share, 0.0), new.shares.get(share, 0.0)) for share in WITHIN}
    most = max(shares, key=lambda share: shares[share][1] - shares[share][0])
    less, more = map(_figure, shares[most])
    times = number(new.median_seconds / old.median_seconds)
    said = f"from {before.title} to {after.title} a trajectory takes {times} times as long, most of it {most}"
    return [f"{said}: {less} to {more} s"]
