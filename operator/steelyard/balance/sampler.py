"""Capacity of the batching sampler: token latency fitted against load, or an honest bracket until two loads were seen.

Rate over utilisation overstates a batching server several times, because its token latency grows with the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, sqrt

from steelyard.balance.model import Estimate, Load, TokenLatency
from steelyard.balance.observe import PodWindow

LOADS_APART = 1.5
"""Two loads identify the slope when the higher is at least so many times the lower."""
FEWEST_SLICES = 4
MOST_SLICES = 24
FEWEST_TOKENS = 8.0
LEAST_ERROR = 0.1
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
        for index in range(int(pod.span / length)):
            start, end = pod.start + index * length, pod.start + (index + 1) * length
            spent = pod.engine.latency_sum.increase(start, end)
            tokens = pod.engine.latency_count.increase(start, end)
            busy = pod.seconds["busy"].increase(start, end) if "busy" in pod.seconds else length
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
    """tau(b) = alpha + beta·b by weighted least squares; None when the loads are too alike to tell the two apart."""
    if len(seen) < FEWEST_SLICES:
        return None
    ordered = sorted(seen, key=lambda load: load.running)
    low, high = _at_weight(ordered, 0.1), _at_weight(ordered, 0.9)
    if high < LOADS_APART * low:
        return None
    total = sum(load.tokens for load in seen)
    mean_b = sum(load.tokens * load.running for load in seen) / total
    mean_tau = sum(load.tokens * load.latency for load in seen) / total
    spread = sum(load.tokens * (load.running - mean_b) ** 2 for load in seen) / total
    if spread <= 0:
        return None
    slope = sum(load.tokens * (load.running - mean_b) * (load.latency - mean_tau) for load in seen) / total / spread
    beta = min(max(slope, 0.0), mean_tau / mean_b)  # neither latency nor its growth can be negative
    alpha = max(mean_tau - beta * mean_b, 1e-3 * mean_tau)
    reference = min(2 * high, most)
    residual = sum(load.tokens * (load.latency - alpha - beta * load.running) ** 2 for load in seen) / total
    freedom = len(seen) - 2
    error = sqrt(residual / freedom * (1 + (reference - mean_b) ** 2 / spread))
    return TokenLatency(alpha, beta, most, min(error / (alpha + beta * reference), 2.0))


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
