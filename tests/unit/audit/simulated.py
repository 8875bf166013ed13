"""A record of the simulated demo under the balance's hand: real decisions, hand-made histograms and exporters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from math import exp

from steelyard.audit.record import Grid, Line, Record, Total
from steelyard.balance import signals
from steelyard.balance.counter import Counter
from steelyard.balance.types import PodView
from steelyard.twin.recording import Window
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.pipeline import START
from tests.unit.balance.replicas import Pod

SECONDS, STEP = 480, 2.0
LOOK_EVERY, LOOK = 80, 60.0
BOUNDS = tuple(digit * 10.0**power for power in range(-3, 3) for digit in (1, 2, 5))
"""Buckets as the workers have them."""


@lru_cache
def recorded() -> Record:
    """Eight minutes with the moves that the balance made in them."""
    loop, pods, windows = Loop(demo_job()), dict[str, Pod](), list[Window]()
    for second in range(0, SECONDS, 5):
        loop.run(5)
        pods |= {pod.name: pod for pod in loop.pipeline.pods}
        if second and second % LOOK_EVERY == 0:
            windows.append(_window(loop))
    grid = Grid(START + STEP, STEP, int(SECONDS / STEP))
    counted = _Counted(grid, list(pods.values()), loop.pipeline.bus)
    return Record(
        name=loop.job.metadata.name,
        namespace=loop.job.metadata.namespace,
        start=START,
        end=START + SECONDS,
        grid=grid,
        made_by="0.0.0",
        job=loop.job,
        revisions=tuple(loop.revisions),
        lines=counted.lines(),
        totals=counted.totals(),
        windows=tuple(windows),
    )


def _window(loop: Loop) -> Window:
    pipeline = loop.pipeline
    pods: tuple[PodView, ...] = tuple(loop.seen().pods())
    since = pipeline.now - LOOK
    return Window(loop.active.spec.allocation.after, since, pipeline.now, pods, pipeline.rates(LOOK))


class _Counted:
    """What Prometheus would have made of the scrapes."""

    def __init__(self, grid: Grid, pods: list[Pod], bus: Pod) -> None:
        self._grid, self._pods, self._bus = grid, pods, bus

    def lines(self) -> dict[str, tuple[Line, ...]]:
        states, units, replicas = (defaultdict[tuple[str, ...], list[float]](self._zeros) for _ in range(3))
        for pod in self._pods:
            scrapes = _scrapes(pod)
            for index, at in enumerate(self._grid.instants):
                if any(at - self._grid.step < when <= at for when in scrapes):
                    replicas[pod.stage, pod.profile][index] += 1
            for metric, label, counter in self._counters(pod):
                if metric in (signals.STAGE_SECONDS, signals.STAGE_UNITS):
                    into = (
                        states[pod.stage, pod.profile, label]
                        if metric == signals.STAGE_SECONDS
                        else units[pod.stage, label]
                    )
                    for index, at in enumerate(self._grid.instants):
                        into[index] += counter.increase(at - self._grid.step, at) / self._grid.step
        wave = tuple(0.02 + 0.01 * (index % 7) for index in range(self._grid.count))
        return {
            "states": _lines(states, "stage", "profile", "state"),
            "replicas": _lines({k: [n or None for n in counts] for k, counts in replicas.items()}, "stage", "profile"),
            "units": _lines(units, "stage", "outcome"),
            "buffers": tuple(self._level(name) for name in ("tasks", "trajectories", "experience")),
            "staleness": (Line({}, tuple(0.8 + 5 * value for value in wave)),),
            "reward": (Line({}, tuple(0.4 + index / 200 for index in range(self._grid.count))),),
            "kv_usage": (Line({}, wave),),
            "io_waiting": (Line({"stage": "trainer"}, wave), Line({"stage": "bus"}, tuple(2 * one for one in wave))),
            "memory_waiting": (Line({"stage": "sampler"}, (0.0,) * self._grid.count),),
            "claims": (Line({"persistentvolumeclaim": "calculator-checkpoints"}, (0.41,) * self._grid.count),),
        }  # fmt: skip

    def totals(self) -> dict[str, tuple[Total, ...]]:
        seconds, units = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], float](float)
        for pod in self._pods:
            for metric, label, counter in self._counters(pod):
                into = {signals.STAGE_SECONDS: seconds, signals.STAGE_UNITS: units}.get(metric)
                if into is not None and counter.totals:
                    into[pod.stage, label] += counter.totals[-1]
        trained = units["trainer", "ok"]
        found = {
            "seconds": tuple(
                Total({"stage": stage, "state": state}, value) for (stage, state), value in seconds.items()
            ),
            "units": tuple(
                Total({"stage": stage, "outcome": outcome}, value) for (stage, outcome), value in units.items()
            ),
            "capacity": (Total({"buffer": "trajectories"}, 256.0),),
            "reward_sum": (Total({}, 0.6 * trained),),
            "reward_count": (Total({}, trained),),
        }
        for figure, count, scale, labels in (
            ("tools", 1.9 * trained, 2.0, {"tool": "calculator", "outcome": "ok"}),
            ("tools", 0.02 * trained, 9.0, {"tool": "calculator", "outcome": "timeout"}),
            ("tools", 0.4 * trained, 0.1, {"tool": "search", "outcome": "ok"}),
            ("buffer_wait", trained, 0.05, {"buffer": "tasks"}),
            ("buffer_wait", trained, 1.1, {"buffer": "trajectories"}),
            ("buffer_wait", trained, 6.0, {"buffer": "experience"}),
            ("service", trained, 0.35, {"stage": "reward-server"}),
            ("train_step", trained / 32, 2.0, {}),
            ("step_interval", trained / 32, 8.0, {}),
        ):  # fmt: skip
            for name, totals in _histogram(figure, count, scale, labels):
                found[name] = (*found.get(name, ()), *totals)
        return found

    def _zeros(self) -> list[float]:
        return [0.0] * self._grid.count

    def _counters(self, pod: Pod) -> Iterator[tuple[str, str, Counter]]:
        born = min(_scrapes(pod), default=None)
        for (metric, _, label), samples in pod.scraped.items():
            yield metric, label, Counter.of(samples, born)

    def _level(self, buffer: str) -> Line:
        samples = dict(self._bus.scraped[signals.BUFFER_DEPTH, "buffer", buffer])
        times = sorted(samples)
        values = [max((t for t in times if t <= at), default=None) for at in self._grid.instants]
        return Line({"buffer": buffer}, tuple(None if at is None else samples[at] for at in values))


def _scrapes(pod: Pod) -> set[float]:
    """When it was scraped."""
    return {at for (metric, *_), samples in pod.scraped.items() if metric == signals.STAGE_SECONDS for at, _ in samples}


def _lines(found: object, *names: str) -> tuple[Line, ...]:
    assert isinstance(found, dict)
    return tuple(Line(dict(zip(names, map(str, key), strict=True)), tuple(values)) for key, values in found.items())


def _histogram(
    figure: str, count: float, scale: float, labels: dict[str, str]
) -> Iterator[tuple[str, tuple[Total, ...]]]:
    shares = {f"{bound:g}": 1 - exp(-bound / scale) for bound in BOUNDS} | {"+Inf": 1.0}
    yield f"{figure}_bucket", tuple(Total({**labels, "le": le}, share * count) for le, share in shares.items())
    yield f"{figure}_count", (Total(labels, count),)
    yield f"{figure}_sum", (Total(labels, count * scale),)
