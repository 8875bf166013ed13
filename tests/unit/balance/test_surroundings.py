"""What nodes tell: pressure, device memory, claims, lengths. Absent is unknown, never 0."""

from __future__ import annotations

from math import nan

import pytest

from steelyard.balance import signals
from steelyard.balance.surroundings import NOTHING, Pressure, surroundings
from steelyard.balance.types import Rates
from tests.unit.balance.builders import NOW, Sheet, steady

POD, CLAIM = "trainer-whole-0", "calculator-checkpoints"


def test_without_exporters_nothing_is_known() -> None:
    assert surroundings(steady().rates(), NOW) is NOTHING


def test_pressure_is_the_share_of_time_that_waited() -> None:
    sheet = Sheet().counter(signals.IO_WAITING, POD, 0.3).counter(signals.IO_STALLED, POD, 0.1)
    pressure = surroundings(sheet.rates(), NOW).pods[POD]
    assert pressure.io_waiting == pytest.approx(0.3)
    assert pressure.io_stalled == pytest.approx(0.1)
    assert pressure.cpu_waiting is None
    assert pressure.memory_waiting is None


def test_a_live_counter_that_stands_still_is_no_pressure() -> None:
    assert surroundings(Sheet().level(signals.IO_WAITING, POD, 7).rates(), NOW).pods[POD].io_waiting == 0.0


def test_the_container_that_suffers_most_speaks_for_its_pod() -> None:
    sheet = Sheet().counter(signals.IO_WAITING, POD, 0.01, image="sidecar").counter(signals.IO_WAITING, POD, 0.4)
    assert surroundings(sheet.rates(), NOW).pods[POD].io_waiting == pytest.approx(0.4)


def test_a_restarted_container_does_not_count_backwards() -> None:
    sheet = Sheet()
    values = [0.2 * (index % 60) for index in range(len(sheet.instants))]
    assert surroundings(sheet.add(signals.IO_WAITING, POD, values).rates(), NOW).pods[POD].io_waiting == pytest.approx(
        0.2, rel=0.05
    )


def test_stale_pressure_is_unknown() -> None:
    assert surroundings(Sheet().counter(signals.IO_WAITING, POD, 0.3).rates(), NOW + 400).pods[POD] == Pressure()


def test_device_memory_is_used_of_used_and_free_over_all_devices() -> None:
    sheet = Sheet().level(signals.DEVICE_USED, POD, 60, gpu="0").level(signals.DEVICE_USED, POD, 70, gpu="1")
    sheet.level(signals.DEVICE_FREE, POD, 20, gpu="0").level(signals.DEVICE_FREE, POD, 10, gpu="1")
    assert surroundings(sheet.rates(), NOW).pods[POD].device_memory == pytest.approx(130 / 160)


def test_half_of_a_pair_is_unknown() -> None:
    sheet = Sheet().level(signals.DEVICE_USED, POD, 60).level(signals.CLAIM_USED, CLAIM, 5)
    found = surroundings(sheet.rates(), NOW)
    assert found.pods[POD].device_memory is None
    assert found.claims == {}


def test_a_claim_is_as_full_as_its_storage_says() -> None:
    sheet = Sheet().level(signals.CLAIM_USED, CLAIM, 45e9).level(signals.CLAIM_CAPACITY, CLAIM, 50e9)
    assert surroundings(sheet.rates(), NOW).claims == {CLAIM: pytest.approx(0.9)}


def lengths_of(sheet: Sheet, *counts: tuple[str, float], pod: str = "environment-default-0") -> Sheet:
    """A histogram of trajectories ended evenly over the window: cumulative count by upper bound."""
    for bound, count in counts:
        sheet.counter(signals.TRAJECTORY_TOKENS, pod, count / 120, le=bound)
    return sheet


def test_the_lengths_of_all_pods_make_one_distribution() -> None:
    sheet = lengths_of(Sheet(), ("100", 45), ("1000", 49), ("10000", 50), ("+Inf", 50))
    lengths_of(sheet, ("100", 45), ("1000", 49), ("10000", 50), ("+Inf", 50), pod="environment-default-1")
    lengths = surroundings(sheet.rates(), NOW).lengths
    assert lengths is not None
    assert lengths.median == pytest.approx(100 * 50 / 90)
    assert lengths.longest == pytest.approx(5500)


def test_beyond_the_last_bound_lies_the_last_bound() -> None:
    lengths = surroundings(lengths_of(Sheet(), ("100", 10), ("+Inf", 50)).rates(), NOW).lengths
    assert lengths is not None
    assert lengths.longest == 100


@pytest.mark.parametrize(
    "counts", [[("100", 3), ("+Inf", 5)], [("+Inf", 50)], [("no number", 50), ("-5", 50)]], ids=str
)
def test_too_few_or_odd_buckets_have_no_lengths(counts: list[tuple[str, float]]) -> None:
    assert surroundings(lengths_of(Sheet(), *counts).rates(), NOW).lengths is None


def test_nonsense_is_unknown() -> None:
    sheet = Sheet()
    for metric in signals.OPTIONAL:
        sheet.add(metric, POD, [nan if index % 2 else -1.0 for index in range(len(sheet.instants))], le="10")
    assert surroundings(sheet.rates(), NOW).pods == {POD: Pressure()}
    assert surroundings(Rates(60, {signals.IO_WAITING: {POD: ()}}), NOW).pods == {POD: Pressure()}
