"""Counters inside a window: resets, late births, nonsense."""

from __future__ import annotations

from math import inf, nan

import pytest

from steelyard.balance.counter import Counter, Gauge, by_label, sane, within
from steelyard.balance.types import Series

CASES: dict[str, tuple[list[tuple[float, float]], float | None, float]] = {
    "a counter that only rises increases by last minus first": ([(0, 5), (1, 7), (2, 10)], None, 5),
    "a reset to zero loses nothing after the reset": ([(0, 90), (1, 100), (2, 3), (3, 8)], None, 10 + 3 + 5),
    "two resets": ([(0, 5), (1, 1), (2, 4), (3, 2)], None, 1 + 3 + 2),
    "an idle counter increases by nothing": ([(0, 7), (1, 7), (2, 7)], None, 0),
    "one sample says nothing about an increase": ([(0, 7)], None, 0),
    "a series born while its pod was scraped stood at zero before": ([(5, 2), (6, 3)], 1.0, 3),
    "a series as old as its pod starts at its first value": ([(1, 2), (2, 3)], 1.0, 1),
    "no sample at all": ([], None, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_increase_over_the_window(case: str) -> None:
    samples, pod_since, want = CASES[case]
    counter = Counter.of(samples, pod_since)
    assert counter.increase(-inf, inf) == pytest.approx(want)


def test_increase_is_linear_between_samples_and_flat_outside() -> None:
    counter = Counter.of([(10, 0), (20, 100)])
    assert counter.increase(10, 15) == pytest.approx(50)
    assert counter.increase(0, 12) == pytest.approx(20)
    assert counter.increase(20, 99) == 0


def test_jumps_are_the_instants_at_which_steps_were_seen_to_end() -> None:
    assert Counter.of([(0, 0), (1, 0), (2, 1), (3, 1), (4, 3)]).jumps() == ((2, 1), (4, 2))


def test_nonsense_values_are_dropped_and_the_rest_is_kept() -> None:
    samples = [(0.0, 1.0), (1.0, nan), (2.0, -3.0), (3.0, inf), (4.0, 1e300), (5.0, 2.0)]
    assert list(sane(samples, 0, 9)) == [(0.0, 1.0), (5.0, 2.0)]


def test_an_instant_that_is_no_number_is_dropped() -> None:
    """It once became the start of a window, and every figure of its pod "nan"."""
    assert list(sane([(nan, 1.0)], 0, 9)) == []
    assert list(sane([(1.0, 1.0), (nan, 2.0), (3.0, 3.0)], 0, 9)) == [(1.0, 1.0), (3.0, 3.0)]


def test_an_instant_that_is_told_twice_counts_once_with_its_last_value() -> None:
    """Two samples at one instant once made the throughput between them a division by zero."""
    assert list(sane([(1.0, 1.0), (2.0, 2.0), (2.0, 3.0)], 0, 9)) == [(1.0, 1.0), (2.0, 3.0)]


def test_samples_outside_the_window_do_not_count() -> None:
    assert list(sane([(float(at), 1.0) for at in range(10)], 3, 5)) == [(3, 1), (4, 1), (5, 1)]


def test_one_counter_per_label_value() -> None:
    states = [
        Series((("state", "busy"),), ((0, 0), (10, 8))),
        Series((("state", "starved"),), ((0, 0), (10, 2))),
    ]
    found = by_label(within(states, 0, 10), "state", 0)
    assert {state: counter.increase(0, 10) for state, counter in found.items()} == {"busy": 8, "starved": 2}


def test_a_gauge_knows_its_value_at_an_instant_and_its_mean() -> None:
    gauge = Gauge(((10, 1.0), (20, 3.0)))
    assert (gauge.near(5), gauge.near(10), gauge.near(19), gauge.near(99)) == (1, 1, 1, 3)
    assert gauge.mean == 2
    assert Gauge().mean is None
    assert Gauge().near(3) is None
