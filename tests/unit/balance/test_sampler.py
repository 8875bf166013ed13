"""The batching sampler: token latency identified from two loads, an honest bracket before."""

from __future__ import annotations

from math import exp, sqrt

import pytest

from steelyard.balance.model import Load
from steelyard.balance.sampler import P90, bracket, fit, most_running


def line(*running: float, alpha: float = 0.02, beta: float = 0.002) -> list[Load]:
    return [Load(b, alpha + beta * b, 100) for b in running]


def test_loads_far_enough_apart_identify_the_line() -> None:
    latency = fit(line(2, 3, 4, 6, 8), most=64)
    assert latency is not None
    assert latency.alpha == pytest.approx(0.02)
    assert latency.beta == pytest.approx(0.002)
    assert latency.error == pytest.approx(0, abs=1e-6)


def test_loads_too_alike_do_not() -> None:
    assert fit(line(4, 4.2, 4.4, 4.6, 5), most=64) is None


def test_too_few_slices_do_not() -> None:
    assert fit(line(1, 8), most=64) is None


def test_noise_shows_as_error_and_grows_with_extrapolation() -> None:
    noisy = [Load(b, (0.02 + 0.002 * b) * (1.2 if i % 2 else 0.8), 100) for i, b in enumerate([2, 3, 4, 5, 6, 8])]
    near, far = fit(noisy, most=6), fit(noisy, most=64)
    assert near is not None
    assert far is not None
    assert far.error > near.error > 0.05


def test_a_machine_that_is_slow_at_times_is_not_taken_for_one_that_cannot_batch() -> None:
    """60 tokens/s whatever happens: tokens take 15 to 45 ms, so 0.9 to 2.7 sequences run. Least squares would find a
    line through the origin, and with it that no replica could ever carry more than those 60 tokens/s."""
    slow_at_times = [Load(60 * latency, latency, 100) for latency in (0.015, 0.018, 0.02, 0.025, 0.03, 0.04, 0.045)]
    latency = fit(slow_at_times, most=64)
    assert latency is not None
    assert latency.capacity > 10 * 60
    assert latency.error > 0.1


def test_a_rate_that_varies_shows_the_growth_through_the_noise() -> None:
    growth = 0.004
    noisy = []
    for index, rate in enumerate([40, 60, 80, 100, 120, 140, 160, 180]):
        alpha = 0.012 * (1.2 if index % 3 == 0 else 0.9)
        tau = alpha / (1 - growth * rate)  # the fixed point of tau = alpha + growth * rate * tau
        noisy.append(Load(rate * tau, tau, 100))
    latency = fit(noisy, most=64)
    assert latency is not None
    assert latency.beta == pytest.approx(growth, rel=0.3)


def test_latency_that_falls_with_load_counts_as_flat() -> None:
    latency = fit(line(2, 4, 6, 8, beta=-0.001), most=64)
    assert latency is not None
    assert latency.beta == 0
    assert latency.alpha > 0


def test_a_bracket_spans_rate_to_rate_over_utilisation() -> None:
    """Four of 64 sequences at 25 ms: at least 160 tokens/s, at most 16 times that."""
    between = bracket([Load(4, 0.025, 100)], most=64)
    assert between is not None
    assert between.value == pytest.approx(160 * sqrt(16))
    assert between.value * exp(-P90 * between.error) == pytest.approx(160)
    assert between.value * exp(P90 * between.error) == pytest.approx(160 * 16)


def test_no_load_gives_no_bracket() -> None:
    assert bracket([], most=64) is None


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], 256),
        (["--max-num-seqs", "32"], 32),
        (["--max-num-seqs=48", "--max-model-len", "32768"], 48),
        (["--max_num_seqs=16"], 16),
        (["--max-num-seqs"], 256),
        (["--max-num-seqs", "many"], 256),
    ],
)
def test_how_many_sequences_a_replica_runs(arguments: list[str], want: float) -> None:
    assert most_running([], arguments) == want
