"""The batching sampler: token latency identified from two loads, an honest bracket before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, log, sqrt
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from steelyard.api import Stage
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.counter import Counter, Gauge
from steelyard.balance.model import Estimate, Load
from steelyard.balance.observe import EngineWindow, PodWindow
from steelyard.balance.sampler import P95, Slice, bracket, most_running, slices
from steelyard.balance.sampler import fit as fit_slices
from tests.unit.balance.builders import a_pod


def line(*running: float, alpha: float = 0.02, beta: float = 0.002) -> list[Load]:
    return [Load(b, alpha + beta * b, 100) for b in running]


def fit(loads: Sequence[Load], most: float, past: Sequence[Load] = ()) -> TokenLatency | None:
    """Through the loads of one replica, one after the other."""
    return fit_slices([Slice(load, "one", float(at)) for at, load in enumerate(loads)], Estimate(most), past)


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


Noise = Callable[[np.random.Generator, int, int], Any]
"""Generator, slices and replicas -> factors on the token latency, (slices, replicas)."""

NOISES: dict[str, Noise] = {
    "of its own in every slice": lambda chance, n, pods: chance.standard_normal((n, pods)),
    "of machines that stay slow for a while": lambda chance, n, pods: walk(chance, n, pods),
    "of a machine that all replicas share": lambda chance, n, pods: np.tile(walk(chance, n, 1), (1, pods)),
    "of replicas that differ": lambda chance, n, pods: np.tile(chance.standard_normal(pods), (n, 1)),
}


def walk(chance: np.random.Generator, n: int, pods: int) -> Any:
    """Noise whose neighbours are alike: correlation 0.8 from one slice to the next."""
    rows = [chance.standard_normal(pods)]
    for _ in range(n - 1):
        rows.append(0.8 * rows[-1] + 0.6 * chance.standard_normal(pods))
    return np.array(rows)


@pytest.mark.parametrize("noise", NOISES)
def test_the_error_is_as_large_as_windows_differ(noise: str) -> None:
    """Two hundred windows of four replicas under loads that rise and fall. Were each slice a sample of its own, the
    error would be a fifth of what windows really differ by where replicas share a machine."""
    chance, found, claimed = np.random.default_rng(1), [], []
    for _ in range(200):
        slower = np.exp(0.05 * NOISES[noise](chance, 24, 4))
        seen = [
            Slice(Load(b, (0.02 + 0.0005 * b) * slower[at, pod], 100), f"replica-{pod}", float(at))
            for at in range(24)
            for pod, b in enumerate(np.array([3.0, 5.0, 7.0, 9.0]) + at % 5)
        ]
        latency = fit_slices(seen, Estimate(20.0))
        assert latency is not None
        found.append(log(latency.capacity))
        claimed.append(latency.error)
    assert 0.65 * pstdev(found) < fmean(claimed) < 2.2 * pstdev(found)


def test_a_line_that_hangs_on_one_earlier_window_is_as_uncertain_as_that() -> None:
    """Loads alike now, and one of the ledger: any error of it tilts the line, and no residual shows that."""
    now = [Load(8 + 0.1 * (i % 3), 0.028 * (1.02 if i % 2 else 0.98), 100) for i in range(8)]
    assert fit(now, most=16) is None
    latency = fit(now, most=16, past=[Load(2.0, 0.022, 1000.0)])
    assert latency is not None
    assert latency.error > 0.03


def an_engine(
    running: Sequence[float], usage: Sequence[float], *, busy: float = 100.0, sync: float = 0.0, tau: float = 0.02
) -> PodWindow:
    """A replica that decodes for `busy` of `busy + sync` seconds, in ten turns, with these gauges at each scrape."""
    span = busy + sync
    edges = [span * i / 10 for i in range(11)]
    mean = fmean(running)
    spent, tokens = [mean * at for at in edges], [mean * at * busy / span / tau for at in edges]
    engine = EngineWindow(
        tokens=Counter(tuple(edges), tuple(tokens)),
        latency_sum=Counter(tuple(edges), tuple(spent)),
        latency_count=Counter(tuple(edges), tuple(tokens)),
        running=Gauge(tuple(enumerate(running))),
        waiting=Gauge(),
        kv_usage=Gauge(tuple(enumerate(usage))),
    )
    seconds = {
        "busy": Counter((0.0, span), (0.0, busy)),
        "sync": Counter((0.0, span), (0.0, sync)),
    }
    return PodWindow(a_pod("sampler", Stage.SAMPLER, "whole"), 0.0, span, seconds, {}, engine=engine)


def test_taking_over_weights_is_no_token_latency() -> None:
    """A fifth of the time goes into new weights. It is lost capacity, and counted as that: `Model.carried`."""
    loads = [one.load for one in slices([an_engine([6.0] * 10, [0.1] * 10, busy=80.0, sync=20.0)], 5.0)]
    assert [load.running for load in loads] == pytest.approx([6.0] * 10)
    assert [load.latency for load in loads] == pytest.approx([0.02] * 10)


def test_what_the_kv_cache_holds_is_told_by_all_replicas_together() -> None:
    """The fewest of any replica would be fewer the more replicas there are: chance, not room."""
    chance = np.random.default_rng(2)
    pods = [an_engine(list(8 + chance.standard_normal(20)), [0.5] * 20) for _ in range(16)]
    assert most_running(pods, []).value == pytest.approx(8 * 0.9 / 0.5, rel=0.03)


def test_room_that_depends_on_who_runs_makes_the_capacity_uncertain() -> None:
    steady = most_running([an_engine([8.0] * 20, [0.5] * 20)], [])
    bursts = most_running([an_engine([8.0] * 20, [0.4] * 10 + [0.6] * 10)], [])
    assert steady.error == pytest.approx(0, abs=1e-9)
    assert bursts.error > 0.05
    seen = [Slice(load, "one", float(at)) for at, load in enumerate(line(2, 3, 4, 6, 8))]
    sure, unsure = fit_slices(seen, steady), fit_slices(seen, replace(steady, error=bursts.error))
    assert sure is not None
    assert unsure is not None
    assert unsure.error == pytest.approx(bursts.error * sure.alpha / sure.at(sure.most))


def test_a_bracket_spans_rate_to_rate_over_utilisation() -> None:
    """Four of 64 sequences at 25 ms: at least 160 tokens/s, at most 16 times that."""
    between = bracket([Load(4, 0.025, 100)], most=64)
    assert between is not None
    assert between.value == pytest.approx(160 * sqrt(16))
    assert between.value * exp(-P95 * between.error) == pytest.approx(160)
    assert between.value * exp(P95 * between.error) == pytest.approx(160 * 16)


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
    assert most_running([], arguments) == Estimate(want)
