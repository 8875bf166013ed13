"""Raw samples -> what each stage did inside one window. Absent or stale data stays visible, it never becomes 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.backlog import backlogs
from steelyard.balance.counter import LARGEST, Counter, Gauge, by_label, gauge, within
from steelyard.balance.types import Instant, PodView, Rates, Seen

SCRAPES = 4
STEPS = 5
"""The window spans at least so many scrapes and training steps."""
MOST_SCRAPES = 900
"""No window is longer: at 15 s a scrape almost four hours, at 1 s a quarter of an hour."""
DEFAULT_SCRAPE_SECONDS = 15.0
LONGEST_WINDOW_SECONDS = 14400.0

WORKING = ("busy", "tool", "tokens", "sync")
"""States in which a slot holds a unit; in `starved`, `blocked` and `paced` it waits, in `drain` it goes away."""


@dataclass(frozen=True)
class Window:
    """The span that is looked at."""

    since: Instant
    until: Instant
    scrape_seconds: float
    step_ends: tuple[tuple[Instant, float], ...] = ()
    """(instant, steps finished) of every scrape at which the trainer had finished steps."""
    full: bool = False
    """It was asked to reach further back than it makes sense to read."""

    @property
    def seconds(self) -> float:
        return max(self.until - self.since, 0.0)

    @property
    def step_seconds(self) -> float | None:
        """Mean time between step ends, None before two were seen."""
        if len(self.step_ends) < 2:
            return None
        return (self.step_ends[-1][0] - self.step_ends[0][0]) / sum(count for _, count in self.step_ends[1:])

    @property
    def steps(self) -> int:
        """Whole step intervals inside the window."""
        return int(sum(count for _, count in self.step_ends[1:]))


@dataclass(frozen=True)
class EngineWindow:
    """What vLLM told about one sampler pod."""

    tokens: Counter
    latency_sum: Counter
    """Seconds that running sequences spent decoding: its rate is the mean number of running sequences (Little)."""
    latency_count: Counter
    running: Gauge
    waiting: Gauge
    kv_usage: Gauge


@dataclass(frozen=True)
class PodWindow:
    """What one pod did between its first and last sample inside the window."""

    pod: PodView
    start: Instant
    end: Instant
    seconds: Mapping[str, Counter]
    """State -> slot seconds."""
    units: Mapping[str, Counter]
    """Outcome -> units finished."""
    slots: float | None = None
    inflight: Gauge = field(default_factory=Gauge)
    engine: EngineWindow | None = None

    @property
    def span(self) -> float:
        return self.end - self.start

    def time_in(self, *states: str) -> float:
        """Slot seconds in any of `states`; every state when none is named."""
        chosen = states or tuple(self.seconds)
        return sum(self.seconds[state].increase(self.start, self.end) for state in chosen if state in self.seconds)

    def finished(self, outcome: str | None = None) -> float:
        """Units finished, of one outcome or of all."""
        counters = self.units.values() if outcome is None else [self.units.get(outcome, Counter())]
        return sum(counter.increase(self.start, self.end) for counter in counters)


@dataclass(frozen=True)
class StageWindow:
    """What one stage did. `pods` are those with fresh data."""

    stage: Stage
    pods: tuple[PodWindow, ...] = ()
    missing: tuple[str, ...] = ()
    """Ready pods without fresh data."""

    def time_in(self, *states: str) -> float:
        return sum(pod.time_in(*states) for pod in self.pods)

    def finished(self, outcome: str | None = None) -> float:
        return sum(pod.finished(outcome) for pod in self.pods)

    def rate(self, outcome: str | None = None) -> float | None:
        """Units per second; pods born inside the window count over their own span. None without data."""
        spans = [pod for pod in self.pods if pod.span > 0]
        return sum(pod.finished(outcome) / pod.span for pod in spans) if spans else None

    def shares(self) -> dict[str, float]:
        """State -> share of slot time; empty when no slot time was measured."""
        seconds: dict[str, float] = {}
        for pod in self.pods:
            for state, counter in pod.seconds.items():
                seconds[state] = seconds.get(state, 0.0) + counter.increase(pod.start, pod.end)
        total = sum(seconds.values())
        return {state: spent / total for state, spent in seconds.items()} if total > 0 else {}

    @property
    def ok_share(self) -> float | None:
        """Units that went on to the next stage per unit finished."""
        total = self.finished()
        return self.finished("ok") / total if total > 0 else None


@dataclass(frozen=True)
class Observed:
    """One window of the whole pipeline."""

    window: Window
    stages: Mapping[Stage, StageWindow] = field(default_factory=dict)
    backlogs: Mapping[Stage, Gauge] = field(default_factory=dict)
    """Trajectories that wait in the buffer in front of a stage; samplers are asked directly and have none."""
    trained: Counter = field(default_factory=Counter)
    """Trajectories trained, by the trainer's own count."""

    @property
    def missing(self) -> tuple[str, ...]:
        """One sentence for each stage that lacks data, empty when the picture is complete."""
        return tuple(
            f"{stage} has no fresh metrics from {len(window.missing)} of {len(window.missing) + len(window.pods)} pods "
            f"({', '.join(window.missing[:3])})"
            for stage, window in self.stages.items()
            if window.missing
        )

    @property
    def throughput(self) -> float | None:
        """Trajectories trained per second between the first and the last step end, None before two were seen."""
        ends = self.window.step_ends
        if len(ends) >= 2:
            return self.trained.increase(ends[0][0], ends[-1][0]) / (ends[-1][0] - ends[0][0])
        return None


def observe(seen: Seen, rates: Rates, now: Instant, since: Instant = 0.0, *, whole: bool = False) -> Observed:
    """Everything measured since `since`: the last `SCRAPES` and `STEPS` of it, or the `whole` of it."""
    pods = [pod for pod in seen.pods() if pod.name]
    max_age = float(seen.job.spec.scaling.max_metric_age_seconds)
    window = _window(pods, rates, since, now, whole)
    views = {pod.name: view for pod in pods if (view := _pod(pod, rates, window, max_age))}
    stages = {stage: _stage(stage, pods, views) for stage in Stage}
    trainer = stages[Stage.TRAINER].pods
    return Observed(
        window,
        stages,
        backlogs=backlogs(seen, rates, window.since, window.until),
        trained=max((view.units["ok"] for view in trainer if "ok" in view.units), key=_total, default=Counter()),
    )


def _total(counter: Counter) -> float:
    return counter.totals[-1] if counter.totals else 0.0


def _window(pods: list[PodView], rates: Rates, asked: Instant, now: Instant, whole: bool) -> Window:
    scrape, read = _scrape_seconds(pods, rates), now - rates.window_seconds
    earliest, full = max(read, asked), asked < read and rates.window_seconds >= longest_window(scrape)
    ends: tuple[tuple[Instant, float], ...] = ()
    for pod in pods:
        if pod.stage is Stage.TRAINER:
            counters = by_label(within(rates.series(signals.STEP_COUNT, pod.name), earliest, now), "", None)
            ends = max([ends, *(counter.jumps() for counter in counters.values())], key=len)
    if whole:
        return Window(earliest, now, scrape, ends, full)
    since = max(earliest, now - max(SCRAPES * scrape, _last_steps(ends, now) or now - earliest))
    return Window(since, now, scrape, tuple(end for end in ends if end[0] >= since), full)


def longest_window(scrape_seconds: float) -> float:
    """How far back it makes sense to read."""
    return min(MOST_SCRAPES * scrape_seconds, LONGEST_WINDOW_SECONDS)


def _last_steps(ends: tuple[tuple[Instant, float], ...], now: Instant) -> float | None:
    """Seconds back to the step end from which `STEPS` steps were finished since, None when fewer were seen."""
    seen = 0.0
    for (at, _), (_, count) in reversed(list(pairwise(ends))):
        seen += count
        if seen >= STEPS:
            return now - at
    return None


def _scrape_seconds(pods: list[PodView], rates: Rates) -> float:
    gaps = [
        later[0] - earlier[0]
        for pod in pods
        for one in rates.series(signals.STAGE_SECONDS, pod.name)[:1]
        for earlier, later in pairwise(one.samples[-12:])
        if 0 < later[0] - earlier[0] < LARGEST
    ]
    return median(gaps) if gaps else DEFAULT_SCRAPE_SECONDS


def _stage(stage: Stage, pods: list[PodView], views: Mapping[str, PodWindow]) -> StageWindow:
    mine = [pod for pod in pods if pod.stage is stage]
    return StageWindow(
        stage,
        tuple(views[pod.name] for pod in mine if pod.name in views),
        tuple(pod.name for pod in mine if pod.ready and not pod.terminating and pod.name not in views),
    )


def _pod(pod: PodView, rates: Rates, window: Window, max_age: float) -> PodWindow | None:
    """The pod's window, None when it has no fresh state counters, or a sampler no fresh token counter."""
    between = window.since, window.until
    states = within(rates.series(signals.STAGE_SECONDS, pod.name), *between)
    start = min((one.samples[0][0] for one in states), default=window.until)
    end = max((one.samples[-1][0] for one in states), default=0.0)
    if window.until - end > max_age:
        return None
    engine = _engine(pod, rates, *between, start) if pod.stage is Stage.SAMPLER else None
    if pod.stage is Stage.SAMPLER and engine is None:
        return None
    return PodWindow(
        pod,
        start,
        end,
        seconds=by_label(states, "state", start),
        units=by_label(within(rates.series(signals.STAGE_UNITS, pod.name), *between), "outcome", start),
        slots=gauge(rates.series(signals.STAGE_SLOTS, pod.name), *between).last,
        inflight=gauge(rates.series(signals.STAGE_INFLIGHT, pod.name), *between),
        engine=engine,
    )


def _engine(pod: PodView, rates: Rates, since: Instant, until: Instant, born: Instant) -> EngineWindow | None:
    def counter(metric: str) -> Counter:
        found = by_label(within(rates.series(metric, pod.name), since, until), "engine", born)
        return max(found.values(), key=_total, default=Counter())

    def level(metric: str) -> Gauge:
        return gauge(rates.series(metric, pod.name), since, until)

    tokens = counter(signals.TOKENS_GENERATED)
    if not tokens.times:
        return None
    return EngineWindow(
        tokens,
        counter(signals.TOKEN_LATENCY_SUM),
        counter(signals.TOKEN_LATENCY_COUNT),
        level(signals.REQUESTS_RUNNING),
        level(signals.REQUESTS_WAITING),
        level(signals.KV_USAGE),
    )
