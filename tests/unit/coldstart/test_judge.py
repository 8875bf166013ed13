"""The judge of the benchmark reproduces what was measured, and sees what planners overlook."""

from __future__ import annotations

import pytest

from benchmarks.planner.inputs import CONTEXT, batches
from benchmarks.planner.judge import Layout, fits, judge, published_rate
from steelyard.balance.coldstart.rows import Rate, calibration
from tests.unit.coldstart.builders import a_model, alike, some_hardware


@pytest.mark.parametrize("rate", calibration().rates, ids=lambda rate: f"TP{rate.tensor_parallel} to {rate.longest}")
def test_it_reproduces_the_published_rates(rate: Rate) -> None:
    found = published_rate(a_model(), some_hardware(), rate.tensor_parallel, rate.shortest, rate.longest)
    assert found == pytest.approx(rate.tokens_per_second, rel=0.06)


def test_a_mixed_layout_suffers_under_a_router_that_knows_no_lengths() -> None:
    layout = Layout(1, 1, 8, 1, {1: 4, 8: 4})
    blind, informed = (
        judge(a_model(), some_hardware(), layout, batches(1), CONTEXT, informed) for informed in (False, True)
    )
    assert blind.sample_seconds > 1.5 * informed.sample_seconds


def test_one_long_trajectory_decides_the_iteration() -> None:
    layout = Layout(1, 1, 8, 1, {8: 4})
    even, tailed = alike([4000] * 64), alike([*[3500] * 63, 35_500])
    seconds = [
        judge(a_model(), some_hardware(), layout, [batch], CONTEXT, True).sample_seconds for batch in (even, tailed)
    ]
    assert seconds[1] > 2 * seconds[0]


def test_training_that_does_not_fit_is_seen() -> None:
    assert fits(a_model(), some_hardware(), Layout(1, 1, 8, 1, {8: 5}), CONTEXT)
    assert not fits(a_model(), some_hardware(), Layout(2, 1, 1, 1, {8: 5}), CONTEXT)
