"""A job in a cluster in memory under the real operator, as the command line finds it behind a fake kubectl."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from typer.testing import CliRunner

from steelyard.api import AgenticRLJob
from steelyard.audit.record import Total
from steelyard.balance.types import MetricsProblem, MetricsUnavailable, PodView, Rates
from steelyard.cli import app
from steelyard.cluster.kinds import Kind, Object
from steelyard.controller import Dependencies, Job
from steelyard.telemetry import Telemetry
from tests.unit.balance.builders import steady
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.operator.operating import IMAGES, KEY, Operated

PLACES = {
    "environment": ("environment", "default"),
    "sampler": ("sampler", "whole"),
    "judge": ("reward-server", "whole"),
}
"""What `steady` calls the pods of a stage."""
CHANGES: Mapping[str, Any] = {
    "budget.gpus": 4,
    "algorithm": {"groupSize": 8, "promptsPerStep": 4, "steps": 2000, "maxStaleness": 2},
    "stages.sampler.replicas": {"min": 1, "max": 3, "initial": 2},
    "stages.environment.concurrency": 8,
    "scaling": {"intervalSeconds": 5, "cooldownSeconds": 10, "evaluation": {"settleSeconds": 5, "steps": 3}},
}


@dataclass
class SteadyMetrics:
    """What a steady pipeline measures, whatever its pods are called."""

    figures: dict[str, Any] = field(default_factory=dict)
    away: bool = False

    async def read(self, job: AgenticRLJob, pods: Iterable[PodView], now: float, window_seconds: float = 60.0) -> Rates:
        if self.away:
            return Rates(window_seconds, unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, "nobody answers"))
        names: dict[str, str] = {}
        counted: dict[tuple[str, str], int] = {}
        for pod in sorted(pods, key=lambda pod: pod.name):
            index = counted.get((pod.stage, pod.profile), 0)
            counted[pod.stage, pod.profile] = index + 1
            names[f"{pod.stage}-{pod.profile}-{index}"] = pod.name
        counts = {f"{name}s": counted.get(place, 1) for name, place in PLACES.items()}
        sheet = steady(**counts, **self.figures)
        shift = now - sheet.now
        samples = {
            metric: {
                names[pod]: tuple(
                    type(one)(one.labels, tuple((at + shift, value) for at, value in one.samples)) for one in series
                )
                for pod, series in by_pod.items()
                if pod in names
            }
            for metric, by_pod in sheet.samples.items()
        }
        return Rates(window_seconds, samples)


class World(Operated):
    """The job, its operator, what it measures, and the user's kubectl."""

    def __init__(self, changes: Mapping[str, Any] | None = None) -> None:
        self.metrics = SteadyMetrics()
        super().__init__({**CHANGES, **(changes or {})})

    def restart(self) -> None:
        deps = Dependencies(self.cluster, self.metrics, IMAGES, Telemetry(), lambda: self.cluster.now)
        self.job = Job(KEY, deps)

    def state(self) -> State:
        """What the API server has now."""
        return put(State(), *map(deepcopy, self.cluster.objects.values()))


@cache
def lived(ticks: int) -> World:
    """A job so many ticks of five seconds old. Shared: what tests change is a copy, `state()`."""
    world = World()
    asyncio.run(world.run(ticks, seconds=5))
    return world


def one_of(state: State, kind: Kind, stage: str) -> Object:
    """The first object of this kind and stage."""
    return next(
        obj
        for path, obj in sorted(state.objects.items())
        if path.startswith(kind.path("default")) and obj["metadata"]["labels"].get("steelyard.dev/stage") == stage
    )


class Answering:
    """Prometheus that knows what it is told."""

    def __init__(self, answers: Mapping[str, list[tuple[dict[str, str], float]]]) -> None:
        self.answers, self.why_not = answers, None
        self.asked: list[str] = []

    def __call__(self, *_: object) -> Answering:
        return self

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def ask(self, queries: Mapping[str, str]) -> dict[str, tuple[Total, ...]]:
        self.asked += queries.values()
        return {
            name: tuple(Total(labels, value) for labels, value in self.answers[name])
            for name in queries
            if name in self.answers
        }


def steelyard(state: State, *arguments: str, monkeypatch: Any, columns: int = 250) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(state))
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
