"""Capacity of the batching sampler: token latency fitted against load, or an honest bracket until two loads were seen.

Rate over utilisation overstates a batching server several times, because its token latency grows with the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.model import Estimate, Load
from steelyard.balance.observe import PodWindow

Array = NDArray[np.float64]

LOADS_APART = 1.5
"""Two loads identify the slope when the higher is at least so many times the lower."""
FEWEST_SLICES = 4
MOST_SLICES = 24
FEWEST_TOKENS = 8.0
LEAST_ERROR = 0.1
ALIKE = 1e-9
"""Relative variance of the rate below which nothing but rounding moved."""
USUAL_GROWTH = 0.025
"""beta/tau of engines that decode from memory, give or take as much: calibrated to published points of Qwen3-14B on
8 A800 (arXiv 2606.03077) it is 0.012 at tensor parallelism 1 and 0.046 at 8."""
KV_FULL = 0.9
P90 = 1.2816
"""Standard deviations from the median to the 90th percentile: a bracket is read as p10 to p90."""


def loads(pods: Iterable[PodWindow], scrape_seconds: float) -> list[Load]:
    """(running, token latency) of short slices of each pod's window.

    The latency histogram's sum grows by one second per second and running sequence, so its increase over the busy
    time is the mean number of running sequences: no sampling noise of a gauge enters, which would flatten the slope.
    """
    found = []
    for pod in pods:
        if pod.engine is None or pod.span <= 0:
            continue
        length = max(2 * scrape_seconds, pod.span / MOST_SLICES)
        slices = int(pod.span / length)
        edges = [pod.start + index * length for index in range(slices + 1)]
        spent_in, tokens_in = pod.engine.latency_sum.increases(edges), pod.engine.latency_count.increases(edges)
        busy_in = pod.seconds["busy"].increases(edges) if "busy" in pod.seconds else [length] * slices
        for spent, tokens, busy in zip(spent_in, tokens_in, busy_in, strict=True):
            if tokens >= FEWEST_TOKENS and spent > 0 and busy > 0:
                found.append(Load(max(spent / busy, 1.0), spent / tokens, tokens))
    return found


def mean_load(seen: Sequence[Load]) -> Load | None:
    """All loads as one, weighted by their tokens."""
    total = sum(load.tokens for load in seen)
    if total <= 0:
        return None
    running = sum(load.tokens * load.running for load in seen) / total
    return Load(running, sum(load.tokens * load.latency for load in seen) / total, total)


def fit(seen: Sequence[Load], most: float) -> TokenLatency | None:
    """tau(b) = alpha + beta·b; None when the loads are too alike to tell the two apart.

    The slope is not the least squares one: on a machine that is slower for a while tokens take longer, *therefore* more
    sequences run, and the line through such points runs through the origin whatever the engine can do. The rate of
    tokens X = b/tau does not move with that noise, so it serves as instrument: beta = cov(tau, X)/cov(b, X). What is
    left uncertain when the rate hardly varied is filled by what engines are known to do, `USUAL_GROWTH`, by precision.
    """
    if len(seen) < FEWEST_SLICES:
        return None
    ordered = sorted(seen, key=lambda load: load.running)
    low, high = _at_weight(ordered, 0.1), _at_weight(ordered, 0.9)
    if high < LOADS_APART * low:
        return None
    running, latency, tokens = np.array([(load.running, load.latency, load.tokens) for load in seen]).T
    share = tokens / tokens.sum()
    mean_b, mean_tau = float(share @ running), float(share @ latency)
    usual = USUAL_GROWTH * mean_tau
    slope, slope_error = _instrumented(running - mean_b, latency - mean_tau, running / latency, share) or (usual, inf)
    trust = usual**2 / (usual**2 + slope_error**2)
    beta = min(max(trust * slope + (1 - trust) * usual, 0.0), mean_tau / mean_b)
    alpha = max(mean_tau - beta * mean_b, 1e-3 * mean_tau)
    reference = min(2 * high, most)
    error = hypot(_scatter(latency - alpha - beta * running, share), (reference - mean_b) * usual * sqrt(1 - trust))
    return TokenLatency(alpha, beta, most, min(error / (alpha + beta * reference), 2.0))


def _instrumented(running: Array, latency: Array, rate: Array, share: Array) -> tuple[float, float] | None:
    """Slope of latency over running (both less their means) with the rate as instrument, and its standard error; None
    when the rate did not vary."""
    mean_rate = float(share @ rate)
    apart = share * (rate - mean_rate)
    spread, moved = float(apart @ rate), float(apart @ running)
    if spread <= ALIKE * mean_rate**2 or moved == 0:
        return None
    slope = float(apart @ latency) / moved
    return slope, _scatter(latency - slope * running, share) * sqrt(spread) / abs(moved)


def _scatter(distance: Array, share: Array) -> float:
    """Standard error of the mean distance between the loads and a line with two parameters."""
    return sqrt(float(share @ distance**2) / (len(distance) - 2))


def bracket(seen: Sequence[Load], most: float) -> Estimate | None:
    """Capacity of a replica while only one load was seen: between its rate X there and X/U, U = running/most.

    X is the rate while the replica was busy at its higher loads; a mean over idle time would bound nothing. The
    estimate is the geometric mean, with the bracket as its 10th and 90th percentile.
    """
    if not seen:
        return None
    high = _at_weight(sorted(seen, key=lambda load: load.running), 0.9)
    busiest = [load for load in seen if load.running >= high]
    tokens = sum(load.tokens for load in busiest)
    latency = sum(load.tokens * load.latency for load in busiest) / tokens
    utilization = min(high / most, 1.0)
    return Estimate(high / latency / sqrt(utilization), max(log(1 / utilization) / 2 / P90, LEAST_ERROR))


def most_running(pods: Sequence[PodWindow], arguments: Sequence[str], slots: float = 256.0) -> float:
    """Sequences a replica can run: `--max-num-seqs`, less where the KV cache would be full before."""
    for position, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name.replace("_", "-") == "--max-num-seqs":
            text = value or (arguments[position + 1] if position + 1 < len(arguments) else "")
            slots = float(text) if text.isdigit() and int(text) > 0 else slots
    for pod in pods:
        running, usage = (pod.engine.running.mean, pod.engine.kv_usage.mean) if pod.engine else (None, None)
        if running and usage and usage > 0.05:  # below, one block more or less decides the quotient
            slots = min(slots, max(running * KV_FULL / usage, 1.0))
    return slots


def _at_weight(ordered: Sequence[Load], share: float) -> float:
    """The load below which `share` of the tokens lie."""
    wanted = share * sum(load.tokens for load in ordered)
    passed = 0.0
    for load in ordered:
        passed += load.tokens
        if passed >= wanted:
            return load.running
    return ordered[-1].running
