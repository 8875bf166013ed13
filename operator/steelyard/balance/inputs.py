"""What a decision rests on, figure by figure: the query, what it came to, and how old its samples are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.backlog import bus_pod
from steelyard.balance.observe import WORKING, Observed, StageWindow
from steelyard.balance.types import Instant, Rates, Seen


@dataclass(frozen=True, slots=True)
class Input:
    """One figure."""

    stage: Stage
    meaning: str
    value: float | None
    """None where nothing was measured, which is not zero."""
    unit: str
    query: str
    """The range query that the samples came from; rates and shares are computed from it, pod by pod."""
    age_seconds: float | None
    """Of the newest sample of the pod that was heard last longest ago."""
    pods: int
    """Pods with samples."""
    of: int
    """Ready pods that should have them."""


Figure = Callable[[Observed, StageWindow], float | None]


def _working(_: Observed, window: StageWindow) -> float | None:
    shares = window.shares()
    return sum(shares.get(state, 0.0) for state in WORKING) if shares else None


def _tokens(_: Observed, window: StageWindow) -> float | None:
    spans = [(pod, pod.engine) for pod in window.pods if pod.engine and pod.span > 0]
    found = [engine.tokens.increase(pod.start, pod.end) / pod.span for pod, engine in spans]
    return sum(found) if found else None


def _running(_: Observed, window: StageWindow) -> float | None:
    found = [level for pod in window.pods if pod.engine and (level := pod.engine.running.mean) is not None]
    return fmean(found) if found else None


def _cache(_: Observed, window: StageWindow) -> float | None:
    return max(
        (level for pod in window.pods if pod.engine and (level := pod.engine.kv_usage.mean) is not None), default=None
    )


def _slots(_: Observed, window: StageWindow) -> float | None:
    found = [pod.slots for pod in window.pods if pod.slots is not None]
    return sum(found) if found else None


def _backlog(observed: Observed, window: StageWindow) -> float | None:
    depth = observed.backlogs.get(window.stage)
    return depth.mean if depth else None


FIGURES: tuple[tuple[Stage, str, str, str, Figure], ...] = (
    (Stage.SAMPLER, "tokens generated", "tokens/s", signals.TOKENS_GENERATED, _tokens),
    (Stage.SAMPLER, "sequences running on a replica", "", signals.REQUESTS_RUNNING, _running),
    (Stage.SAMPLER, "fullest KV cache", "share", signals.KV_USAGE, _cache),
    (Stage.SAMPLER, "working", "share", signals.STAGE_SECONDS, _working),
    (Stage.ENVIRONMENT, "episodes finished", "trajectories/s", signals.STAGE_UNITS, lambda _, window: window.rate()),
    (Stage.ENVIRONMENT, "slots", "episodes", signals.STAGE_SLOTS, _slots),
    (Stage.ENVIRONMENT, "working", "share", signals.STAGE_SECONDS, _working),
    (Stage.REWARD_SERVER, "scored", "trajectories/s", signals.STAGE_UNITS, lambda _, window: window.rate()),
    (Stage.REWARD_SERVER, "working", "share", signals.STAGE_SECONDS, _working),
    (Stage.REWARD_SERVER, "waiting in front", "trajectories", signals.BUFFER_DEPTH, _backlog),
    (Stage.TRAINER, "trained", "trajectories/s", signals.STAGE_UNITS, lambda observed, _: observed.throughput),
    (Stage.TRAINER, "time between steps", "s", signals.STEP_COUNT, lambda observed, _: observed.window.step_seconds),
    (Stage.TRAINER, "working", "share", signals.STAGE_SECONDS, _working),
    (Stage.TRAINER, "waiting in front", "trajectories", signals.BUFFER_DEPTH, _backlog),
)
"""Stage, what it means, unit, metric, and how it is computed from a window."""


def inputs(seen: Seen, rates: Rates, observed: Observed, now: Instant) -> Iterator[Input]:
    """Every figure, also those that are missing."""
    for stage, meaning, unit, metric, figure in FIGURES:
        window = observed.stages.get(stage, StageWindow(stage))
        bus = metric == signals.BUFFER_DEPTH
        ready = [pod.name for pod in seen.pods() if pod.stage is stage and pod.ready and not pod.terminating]
        asked = [bus_pod(seen)] if bus else ready
        newest = [at for pod in asked if (at := _newest(rates, metric, pod)) is not None]
        yield Input(
            stage,
            meaning,
            figure(observed, window),
            unit,
            f"{metric}[{ceil(rates.window_seconds)}s]",
            max(now - min(newest), 0.0) if newest else None,
            len(newest),
            len(asked),
        )


def _newest(rates: Rates, metric: str, pod: str) -> Instant | None:
    return max((one.samples[-1][0] for one in rates.series(metric, pod) if one.samples), default=None)
