"""When a part of the pipeline was away: what the others did meanwhile says nothing about what they can."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from steelyard.api import Stage
from steelyard.api.names import BUS
from steelyard.balance import signals
from steelyard.balance.counter import LARGEST, Counter, Sample, sane
from steelyard.balance.types import Instant, Rates, Seen


@dataclass(frozen=True, slots=True)
class Outage:
    """A stage, or the bus, of which no replica worked."""

    part: str
    over: Instant
    """When the first replica finished work again; the present while none has."""


def up_since(starts: Iterable[tuple[str, Instant | None]]) -> dict[str, Instant]:
    """`Seen.up_since`, from the part of each pod and since when it has run; None: it does not."""
    found: dict[str, Instant] = {}
    for part, start in starts:
        found[part] = min(found.get(part, inf), inf if start is None else start)
    return found


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
    mine = (pod.name for pod in seen.pods() if pod.stage == part)
    counters = [series.samples for name in mine for series in rates.series(finished, name)]
    if up < now - rates.window_seconds and any(samples and 0 < samples[0][1] < LARGEST for samples in counters):
        return up  # before all that was read
    rises = (_first_rise(sane(samples, up, now), up) for samples in counters)
    return min((at for at in rises if at is not None), default=now)


def _first_rise(samples: Sequence[Sample], up: Instant) -> Instant | None:
    """After the last reset: `up` is told to the second, by another clock."""
    resets = [place for place, (one, later) in enumerate(pairwise(samples), 1) if later[1] < one[1]]
    counter = Counter.of(samples[resets[-1] :] if resets else samples, up)
    return next((at for at, _ in counter.jumps()), None)
