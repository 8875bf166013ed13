"""When a part of the pipeline was away: what the others did meanwhile says nothing about what they can."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard.api import Stage
from steelyard.api.names import BUS
from steelyard.balance import signals
from steelyard.balance.counter import Counter, within
from steelyard.balance.types import Instant, Rates, Seen


@dataclass(frozen=True, slots=True)
class Outage:
    """A stage, or the bus, of which no replica worked."""

    part: str
    over: Instant
    """When the first replica finished work again; the present while none has."""


def last_outage(seen: Seen, rates: Rates, since: Instant, now: Instant, spared: Collection[str] = ()) -> Outage | None:
    """The outage after `since` that ended last, of any part but the `spared` ones."""
    found = [
        Outage(part, _works_again(part, seen, rates, up, now))
        for part, up in seen.up_since.items()
        if up > since and part not in spared
    ]
    return max(found, key=lambda one: one.over, default=None)


def _works_again(part: str, seen: Seen, rates: Rates, up: Instant, now: Instant) -> Instant:
    """When its counters first rose after it was `up` again; a bus has none of its own."""
    if part == BUS:
        return min(up, now)
    finished = signals.TOKENS_GENERATED if part == Stage.SAMPLER else signals.STAGE_UNITS
    rises = (
        _first_rise(series.samples, up, now - rates.window_seconds)
        for pod in seen.pods()
        if pod.stage == part
        for series in within(rates.series(finished, pod.name), up, now)
    )
    return min((at for at in rises if at is not None), default=now)


def _first_rise(samples: Sequence[tuple[Instant, float]], up: Instant, read: Instant) -> Instant | None:
    """After the last reset, for `up` is told to the second by another clock; `up` where it lies before all that was
    `read`."""
    resets = [place for place, (one, next_) in enumerate(pairwise(samples), 1) if next_[1] < one[1]]
    if not resets and up < read and samples[0][1] > 0:
        return up
    counter = Counter.of(samples[resets[-1] :] if resets else samples, up)
    return next((at for at, _ in counter.jumps()), None)
