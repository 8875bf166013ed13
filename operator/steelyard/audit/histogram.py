"""Classic histograms as totals of a span: mean, quantiles, count. Too little observed has no quantile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf

from steelyard.audit.record import Record

FEWEST = {0.5: 2, 0.95: 20, 0.99: 100}
"""Observations from which a quantile says something."""


@dataclass(frozen=True)
class Spread:
    """How long something took, or how large it was."""

    count: float
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    largest: float = inf
    """The highest bound of its buckets: a quantile that reaches it is `at least`."""

    def __bool__(self) -> bool:
        return self.count > 0


def spread(record: Record, figure: str, **labels: str) -> Spread:
    """The spread of one histogram; those whose labels are not named are put together."""
    buckets: dict[float, float] = {}
    for total in record.totals.get(f"{figure}_bucket", ()):
        if all(total.labels.get(name) == value for name, value in labels.items()):
            bound = float(total.labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + total.value
    ordered = sorted(buckets.items())
    count = record.total(f"{figure}_count", **labels) or 0.0
    total_sum = record.total(f"{figure}_sum", **labels)
    if count <= 0:
        return Spread(0.0)
    p50, p95, p99 = (quantile(ordered, share) if count >= fewest else None for share, fewest in FEWEST.items())
    largest = max((bound for bound, _ in ordered if not isinf(bound)), default=inf)
    return Spread(count, None if total_sum is None else total_sum / count, p50, p95, p99, largest)


def values_of(record: Record, figure: str, label: str) -> tuple[str, ...]:
    """The values of one label, those with most observations first."""
    found = {total.labels.get(label, "") for total in record.totals.get(f"{figure}_count", ())}
    return tuple(sorted(found, key=lambda value: (-(record.total(f"{figure}_count", **{label: value}) or 0), value)))


def quantile(cumulative: Sequence[tuple[float, float]], share: float) -> float | None:
    """Linear inside the bucket that holds it, as Prometheus does it; the last finite bound when it lies beyond."""
    total = cumulative[-1][1] if cumulative else 0.0
    if total <= 0:
        return None
    rank, lower, below = share * total, 0.0, 0.0
    for bound, count in cumulative:
        if count >= rank:
            if isinf(bound):
                return lower
            inside = (rank - below) / (count - below) if count > below else 1.0
            return min(lower + (bound - lower) * inside, bound)
        lower, below = bound, max(count, below)
    return lower
