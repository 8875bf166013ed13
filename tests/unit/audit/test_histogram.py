"""Quantiles as Prometheus computes them, and none where too little was observed."""

from math import inf

import pytest

from steelyard.audit.histogram import Spread, quantile, spread, values_of
from steelyard.audit.record import Total
from tests.unit.audit.builders import a_record

BUCKETS = {"1": 50.0, "2": 90.0, "5": 99.0, "+Inf": 100.0}


def a_histogram(scale: float = 1.0, **labels: str) -> dict[str, list[Total]]:
    """A hundred observations: half up to 1, forty up to 2, nine up to 5, one beyond; 200 in all."""
    return {
        "tools_bucket": [Total({"le": bound, **labels}, count * scale) for bound, count in BUCKETS.items()],
        "tools_count": [Total(labels, 100.0 * scale)],
        "tools_sum": [Total(labels, 200.0 * scale)],
    }


def test_mean_and_quantiles_of_a_hundred() -> None:
    found = spread(a_record(totals=a_histogram(tool="search")), "tools", tool="search")
    assert (found.count, found.mean, found.p50) == (100, 2.0, 1.0)
    assert found.p95 == pytest.approx(2 + 3 * 5 / 9)
    assert found.p99 == 5.0
    assert found.largest == 5.0


def test_histograms_of_several_labels_add_up() -> None:
    one, other = a_histogram(tool="search"), a_histogram(3.0, tool="shell")
    record = a_record(totals={figure: one[figure] + other[figure] for figure in one})
    assert spread(record, "tools").count == 400
    assert spread(record, "tools").p50 == 1.0
    assert values_of(record, "tools", "tool") == ("shell", "search")


@pytest.mark.parametrize(("scale", "known"), [(0.01, (0, 0, 0)), (0.1, (1, 0, 0)), (0.5, (1, 1, 0)), (1, (1, 1, 1))])
def test_a_quantile_needs_observations(scale: float, known: tuple[int, int, int]) -> None:
    found = spread(a_record(totals=a_histogram(scale)), "tools")
    assert tuple(value is not None for value in (found.p50, found.p95, found.p99)) == tuple(map(bool, known))


def test_nothing_observed_is_no_zero() -> None:
    assert spread(a_record(), "tools") == Spread(0.0)
    assert not spread(a_record(), "tools")


CASES = {
    "all in the first bucket": ([(1.0, 10.0), (inf, 10.0)], 0.5, 0.5),
    "beyond the last bound": ([(1.0, 1.0), (inf, 10.0)], 0.99, 1.0),
    "an empty bucket between": ([(1.0, 5.0), (2.0, 5.0), (4.0, 10.0), (inf, 10.0)], 0.75, 3.0),
    "nothing": ([(1.0, 0.0), (inf, 0.0)], 0.5, None),
    "no bucket": ([], 0.5, None),
}


@pytest.mark.parametrize("case", CASES)
def test_quantiles_lie_inside_their_bucket(case: str) -> None:
    buckets, share, want = CASES[case]
    assert quantile(buckets, share) == (pytest.approx(want) if want is not None else None)
