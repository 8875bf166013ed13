"""Counters and gauges of one pod inside a window: resets, late births and nonsense values are dealt with here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from operator import lt, sub

from steelyard.balance.types import Instant, Series

LARGEST = 1e15
"""Beyond this a sample is garbage: no counter of ours gets there, and sums of squares must not overflow."""
FEWEST_OF_A_HALF = 2

Sample = tuple[Instant, float]


def sane(samples: Sequence[Sample], since: Instant, until: Instant) -> Sequence[Sample]:
    """The samples (oldest first) inside [since, until] with finite, non-negative values, one for each instant."""
    kept = samples[bisect_left(samples, (since, -inf)) : bisect_right(samples, (until, inf))]
    if not kept:
        return kept
    times, values = zip(*kept, strict=True)
    # a NaN or an infinity anywhere shows in the sum, so that thousands of good samples cost no loop of ours
    inside = since <= times[0] <= times[-1] <= until  # an instant that is no number is nowhere
    if inside and min(values) >= 0 and sum(values) < LARGEST and all(map(lt, times, times[1:])):
        return kept
    return list({at: (at, value) for at, value in kept if since <= at <= until and 0 <= value < LARGEST}.values())


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter made continuous: `totals[i]` is the increase from the window's start to `times[i]`."""

    times: tuple[Instant, ...] = ()
    totals: tuple[float, ...] = ()

    @classmethod
    def of(cls, samples: Sequence[Sample], pod_since: Instant | None = None) -> Counter:
        """Increase over `samples`, aware of resets.

        A labelled series appears with its first event. When the pod was scraped before (`pod_since`) without it,
        it stood at zero, so its first value is an increase too.
        """
        if not samples:
            return cls()
        times, values = zip(*samples, strict=True)
        steps = list(map(sub, values[1:], values))
        if steps and min(steps) < 0:
            steps = [step if step >= 0 else value for step, value in zip(steps, values[1:], strict=True)]
        if pod_since is not None and pod_since < times[0]:
            return cls((pod_since, *times), tuple(accumulate([values[0], *steps], initial=0.0)))
        return cls(times, tuple(accumulate(steps, initial=0.0)))

    def at(self, instant: Instant) -> float:
        """The increase up to `instant`, linear between samples, flat outside them."""
        if not self.times:
            return 0.0
        right = bisect_right(self.times, instant)
        if right == 0:
            return 0.0
        if right == len(self.times):
            return self.totals[-1]
        t0, t1 = self.times[right - 1], self.times[right]
        v0, v1 = self.totals[right - 1], self.totals[right]
        return v0 + (v1 - v0) * (instant - t0) / (t1 - t0)

    def increase(self, start: Instant, end: Instant) -> float:
        return self.at(end) - self.at(start)

    def increases(self, edges: Sequence[Instant]) -> list[float]:
        """The increase between each edge and the next."""
        totals = [self.at(edge) for edge in edges]
        return list(map(sub, totals[1:], totals))

    def jumps(self) -> tuple[Sample, ...]:
        """(instant, increase) of every sample at which the counter had risen."""
        rises = zip(pairwise(self.totals), self.times[1:], strict=True)
        return tuple((at, after - before) for (before, after), at in rises if after > before)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge inside the window."""

    samples: tuple[Sample, ...] = ()

    @property
    def last(self) -> float | None:
        return self.samples[-1][1] if self.samples else None

    @property
    def mean(self) -> float | None:
        return sum(value for _, value in self.samples) / len(self.samples) if self.samples else None

    @property
    def growth(self) -> float | None:
        """Mean of the second half less that of the first, None where samples are too few to tell."""
        half = len(self.samples) // 2
        if half < FEWEST_OF_A_HALF:
            return None
        first, second = self.samples[:half], self.samples[-half:]
        return (sum(value for _, value in second) - sum(value for _, value in first)) / half

    def near(self, instant: Instant) -> float | None:
        """The last value at or before `instant`, else the first one after it."""
        if not self.samples:
            return None
        index = bisect_left(self.samples, (instant, LARGEST))
        return self.samples[max(index - 1, 0)][1]


def within(series: Iterable[Series], since: Instant, until: Instant) -> list[Series]:
    """The series with their sane samples inside [since, until] only, those without any left out."""
    kept = ((one.labels, sane(one.samples, since, until)) for one in series)
    return [Series(labels, tuple(samples)) for labels, samples in kept if samples]


def by_label(series: Iterable[Series], label: str, pod_since: Instant | None) -> dict[str, Counter]:
    """One counter per value of `label`; series that share the value (several engines of one pod, say) keep the busiest.

    Summing would need aligned samples; no metric of the contract splits a label value over several series.
    """
    counters: dict[str, Counter] = {}
    for one in series:
        counter = Counter.of(one.samples, pod_since)
        key = one.label(label) or ""
        held = counters.get(key)
        if held is None or counter.totals[-1] > held.totals[-1]:
            counters[key] = counter
    return counters


def gauge(series: Iterable[Series], since: Instant, until: Instant, **labels: str) -> Gauge:
    """The first series whose labels match, as a gauge."""
    for one in series:
        if all(one.label(name) == value for name, value in labels.items()):
            return Gauge(tuple(sane(one.samples, since, until)))
    return Gauge()
