"""What the nodes tell about the pods: pressure on storage, CPU and memory, device memory, how full the claims are.

Exporters of the cluster measure it, not the workers, so any of it may be absent. It explains; it moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.balance import signals
from steelyard.balance.counter import Counter, gauge, sane
from steelyard.balance.types import Instant, Rates, Series

RECENT_SECONDS = 300.0
"""How far back these series are read: nodes are scraped seldom."""
FEWEST_TRAJECTORIES = 20
"""Fewer have no 99th percentile."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Shares of time, 0..1, in which work of one pod waited for its node. None is unknown."""

    io_waiting: float | None = None
    """Some task waited for storage."""
    io_stalled: float | None = None
    """No task could go on for lack of storage."""
    cpu_waiting: float | None = None
    memory_waiting: float | None = None
    device_memory: float | None = None
    """Share of the memory of its devices in use."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Generated tokens of the trajectories that ended lately."""

    median: float
    longest: float
    """The 99th percentile."""


@dataclass(frozen=True)
class Surroundings:
    """Everything optional that was read for one job."""

    pods: Mapping[str, Pressure] = field(default_factory=dict)
    claims: Mapping[str, float] = field(default_factory=dict)
    """Claim -> share of its capacity in use, where the storage tells."""
    lengths: Lengths | None = None


NOTHING = Surroundings()


def surroundings(rates: Rates, now: Instant) -> Surroundings:
    """What is known; the exporters that are absent leave their figures None."""
    if rates.samples.keys().isdisjoint(signals.OPTIONAL):
        return NOTHING
    names = {name for metric in (*signals.PRESSURE, *signals.DEVICES) for name in rates.samples.get(metric, ())}
    claims = {claim: _fill(rates, claim, now) for claim in rates.samples.get(signals.CLAIM_USED, ())}
    return Surroundings(
        {name: _pressure(rates, name, now) for name in names},
        {claim: fill for claim, fill in claims.items() if fill is not None},
        _lengths(rates, now),
    )


def _pressure(rates: Rates, pod: str, now: Instant) -> Pressure:
    io_waiting, io_stalled, cpu, memory = (_share(rates, metric, pod, now) for metric in signals.PRESSURE)
    used, free = (_level(rates, metric, pod, now) for metric in signals.DEVICES)
    device = None if used is None or free is None or used + free <= 0 else used / (used + free)
    return Pressure(io_waiting, io_stalled, cpu, memory, device)


def _share(rates: Rates, metric: str, pod: str, now: Instant) -> float | None:
    """Seconds of pressure per second in the container of the pod that suffers most, None before two samples."""
    shares = [
        Counter.of(samples).increase(samples[0][0], samples[-1][0]) / (samples[-1][0] - samples[0][0])
        for one in rates.series(metric, pod)
        if len(samples := sane(one.samples, now - RECENT_SECONDS, now)) > 1
    ]
    return min(max(shares), 1.0) if shares else None


def _level(rates: Rates, metric: str, pod: str, now: Instant) -> float | None:
    """The newest values of all series (one a device) together."""
    newest = [
        level
        for one in rates.series(metric, pod)
        if (level := gauge([one], now - RECENT_SECONDS, now).last) is not None
    ]
    return sum(newest) if newest else None


def _fill(rates: Rates, claim: str, now: Instant) -> float | None:
    used, capacity = (_level(rates, metric, claim, now) for metric in signals.CLAIMS)
    return min(used / capacity, 1.0) if used is not None and capacity else None


def _lengths(rates: Rates, now: Instant) -> Lengths | None:
    """Median and 99th percentile from the buckets of all environment pods, each told by its upper bound."""
    counts: dict[float, float] = {}
    for series in rates.samples.get(signals.TRAJECTORY_TOKENS, {}).values():
        for one in series:
            bound = _bound(one)
            if bound is not None and (samples := sane(one.samples, 0.0, now)):
                counts[bound] = counts.get(bound, 0.0) + Counter.of(samples).totals[-1]
    ordered = sorted(counts.items())
    total = max((count for _, count in ordered), default=0.0)
    finite = [bound for bound, _ in ordered if bound != float("inf")]
    if total < FEWEST_TRAJECTORIES or not finite:
        return None
    return Lengths(*(_quantile(ordered, share * total, finite[-1]) for share in (0.5, 0.99)))


def _bound(one: Series) -> float | None:
    try:
        bound = float(one.label("le") or "")
    except ValueError:
        return None
    return bound if bound > 0 else None


def _quantile(cumulative: list[tuple[float, float]], rank: float, largest: float) -> float:
    """Linear inside the bucket that holds `rank`, as Prometheus does it."""
    before = (0.0, 0.0)
    for bound, count in cumulative:
        if count >= rank:
            if bound > largest:
                return largest
            lower, below = before
            return lower + (bound - lower) * (rank - below) / (count - below) if count > below else bound
        before = (bound, count)
    return largest
