"""Capacity of the batching sampler: token latency fitted against load, or an honest bracket until two loads were seen.

Rate over utilisation overstates a batching server several times, because its token latency grows with the batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import hypot, log, sqrt

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.model import Estimate, Load
from steelyard.balance.observe import EngineWindow, PodWindow
from steelyard.balance.types import Instant

Array = NDArray[np.float64]

LOADS_APART = 1.5
"""Two loads identify the slope when the higher is at least so many times the lower."""
FEWEST_SLICES = 4
MOST_SLICES = 24
FEWEST_TOKENS = 8.0
LEAST_SECONDS = 1e-6
"""In less no engine does anything."""
STRETCHES = 6
"""The window is left out in so many parts, one at a time, to see what the estimate hangs on."""
LEAST_ERROR = 0.1
P95 = 1.645
"""Standard deviations from the median to the 95th percentile."""
ALIKE = 1e-9
"""Relative variance of the rate below which nothing but rounding moved."""
USUAL_GROWTH = 0.025
"""beta/tau of engines that decode from memory, give or take as much: calibrated to published points of Qwen3-14B on
8 A800 (arXiv 2606.03077) it is 0.012 at tensor parallelism 1 and 0.046 at 8."""
KV_FULL = 0.9
KV_SAMPLES = 60
"""So many samples of a replica say enough about what a sequence takes."""
LEAST_KV_USAGE = 0.05
"""Below, one block more or less decides how many sequences the KV cache would hold."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The load of one replica in a short slice of its window."""

    load: Load
    replica: str
    at: Instant


def slices(pods: Iterable[PodWindow], scrape_seconds: float) -> list[Slice]:
    """(running, token latency) of short slices of each pod's window.

    The latency histogram's sum grows by one second per second and running sequence, so its increase over the time in
    which any ran is the mean number of running sequences: no sampling noise of a gauge enters, which would flatten the
    slope. Sequences stay in the batch while new weights are taken over, but get no tokens: that is not their latency.
    """
    found = []
    for pod in pods:
        if pod.engine is None or pod.span <= 0:
            continue
        length = max(2 * scrape_seconds, pod.span / MOST_SLICES)
        count = int(pod.span / length)
        edges = [pod.start + index * length for index in range(count + 1)]
        spent_in, tokens_in = pod.engine.latency_sum.increases(edges), pod.engine.latency_count.increases(edges)
        busy_in = pod.seconds["busy"].increases(edges) if "busy" in pod.seconds else [length] * count
        sync_in = pod.seconds["sync"].increases(edges) if "sync" in pod.seconds else [0.0] * count
        for at, spent, tokens, busy, sync in zip(edges[:-1], spent_in, tokens_in, busy_in, sync_in, strict=True):
            if tokens >= FEWEST_TOKENS and min(spent, busy) >= LEAST_SECONDS:
                running = spent / (busy + sync)
                load = Load(max(running, 1.0), running * busy / tokens, tokens)
                found.append(Slice(load, pod.pod.name, at))
    return found


def mean_load(seen: Sequence[Load]) -> Load | None:
    """All loads as one, weighted by their tokens."""
    total = sum(load.tokens for load in seen)
    if total <= 0:
        return None
    running = sum(load.tokens * load.running for load in seen) / total
    return Load(running, sum(load.tokens * load.latency for load in seen) / total, total)


def fit(seen: Sequence[Slice], most: Estimate, past: Sequence[Load] = ()) -> TokenLatency | None:
    """tau(b) = alpha + beta·b; None when the loads are too alike to tell the two apart.

    The slope is not the least squares one: on a machine that is slower for a while tokens take longer, *therefore* more
    sequences run, and the line through such points runs through the origin whatever the engine can do. The rate of
    tokens X = b/tau does not move with that noise, so it serves as instrument: beta = cov(tau, X)/cov(b, X). What is
    left uncertain when the rate hardly varied is filled by what engines are known to do, `USUAL_GROWTH`, by precision.

    The error is that of a jackknife. Slices are no independent samples: what slows a machine down lasts longer than one
    of them, and a replica may be slower throughout. So whole stretches of time are left out, whole replicas, and each
    load of the `past`; whatever of these the estimate hangs on most counts.
    """
    past = [load for load in past if min(load.running, load.latency, load.tokens) > 0]
    loads = [*(one.load for one in seen), *past]
    if len(loads) < FEWEST_SLICES:
        return None
    ordered = sorted(loads, key=lambda load: load.running)
    low, high = _at_weight(ordered, 0.1), _at_weight(ordered, 0.9)
    if high < LOADS_APART * low:
        return None
    running, latency, tokens = np.array([(load.running, load.latency, load.tokens) for load in loads]).T
    times, replicas = _left_out([*_stretches(seen), *past], tokens), _left_out([one.replica for one in seen], tokens)
    alphas, betas, priors = _lines(running, latency, np.concatenate([tokens[None], times, replicas]))
    alpha, beta, reference = float(alphas[0]), float(betas[0]), min(2 * high, most.value)
    without = np.log(alphas + betas * reference)[1:]
    told = max(_jackknife(without[: len(times)]), _jackknife(without[len(times) :]))
    assumed = (reference - float(running @ tokens / tokens.sum())) * float(priors[0]) / (alpha + beta * reference)
    room = most.error * alpha / (alpha + beta * most.value)
    return TokenLatency(alpha, beta, most.value, min(hypot(told, assumed, room), 2.0))


def _stretches(seen: Sequence[Slice]) -> list[int]:
    """The stretch of time that each slice lies in: `STRETCHES` with as many slices each."""
    order = sorted(range(len(seen)), key=lambda index: seen[index].at)
    stretch = {index: place * STRETCHES // len(seen) for place, index in enumerate(order)}
    return [stretch[index] for index in range(len(seen))]


def _left_out(labels: Sequence[Hashable], tokens: Array) -> Array:
    """The weights without the loads of each label in turn: labels x loads, none where there is only one label. Loads
    beyond the labels are always there."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    if len(numbers) < 2:
        return np.empty((0, len(tokens)))
    weights = np.tile(tokens, (len(numbers), 1))
    weights[[numbers[label] for label in labels], np.arange(len(labels))] = 0.0
    return weights


def _jackknife(estimates: Array) -> float:
    """Standard error of an estimate from what becomes of it without each part of the data."""
    count = len(estimates)
    return sqrt(float(((estimates - estimates.mean()) ** 2).sum()) * (count - 1) / count) if count else 0.0


def _lines(running: Array, latency: Array, weights: Array) -> tuple[Array, Array, Array]:
    """alpha, beta and what remains of the uncertainty of beta that engines are known to have, for each row of weights
    (rows x loads)."""
    share = weights / weights.sum(axis=1, keepdims=True)
    rate = running / latency
    mean_b, mean_tau, mean_rate = share @ running, share @ latency, share @ rate
    usual = USUAL_GROWTH * mean_tau
    apart = share * (rate - mean_rate[:, None])
    spread, moved = apart @ rate, apart @ running
    with np.errstate(all="ignore"):
        slope = (apart @ latency) / moved
        distance = latency - mean_tau[:, None] - slope[:, None] * (running - mean_b[:, None])
        independent = np.maximum(1 / (share**2).sum(axis=1) - 2, 1.0)
        error = np.sqrt((share * distance**2).sum(axis=1) / independent * spread) / abs(moved)
        trust = usual**2 / (usual**2 + error**2)
    told = (spread > ALIKE * mean_rate**2) & (moved != 0) & np.isfinite(trust)
    trust, slope = np.where(told, trust, 0.0), np.where(told, slope, 0.0)
    beta = np.clip(trust * slope + (1 - trust) * usual, 0.0, mean_tau / mean_b)
    alpha = np.maximum(mean_tau - beta * mean_b, 1e-3 * mean_tau)
    return alpha, beta, np.sqrt(1 - trust) * usual


def bracket(seen: Sequence[Load], most: float) -> Estimate | None:
    """Capacity of a replica while only one load was seen: between its rate X there and X/U, U = running/most.

    X is the rate while the replica was busy at its higher loads; a mean over idle time would bound nothing. The
    estimate is the geometric mean, with the bracket as its 5th and 95th percentile: a tenth of the chance below what it
    does already would let no move pass that needs any more of it.
    """
    if not seen:
        return None
    high = _at_weight(sorted(seen, key=lambda load: load.running), 0.9)
    busiest = [load for load in seen if load.running >= high]
    tokens = sum(load.tokens for load in busiest)
    latency = sum(load.tokens * load.latency for load in busiest) / tokens
    utilization = min(high / most, 1.0)
    return Estimate(high / latency / sqrt(utilization), max(log(1 / utilization) / 2 / P95, LEAST_ERROR))


def most_running(pods: Sequence[PodWindow], arguments: Sequence[str], slots: float = 256.0) -> Estimate:
    """Sequences a replica can run: `--max-num-seqs`, less where the KV cache would be full before."""
    for position, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name.replace("_", "-") == "--max-num-seqs":
            text = value or (arguments[position + 1] if position + 1 < len(arguments) else "")
            slots = float(text) if text.isdigit() and int(text) > 0 else slots
    room = _kv_room(pods)
    return room if room is not None and room.value < slots else Estimate(slots)


def _kv_room(pods: Sequence[PodWindow]) -> Estimate | None:
    """Sequences that fill the KV cache, by what those that run take of it; None while they take next to nothing.

    Its error is that of a ratio of sums, by stretches of time: sequences of one scrape are still there in the next.
    """
    samples = [one for pod in pods if pod.engine for one in _kv_samples(pod.engine)]
    taken, ran = sum(usage for _, _, usage in samples), sum(running for _, running, _ in samples)
    if ran <= 0 or taken <= LEAST_KV_USAGE * len(samples):
        return None
    unexplained = [0.0] * min(STRETCHES, len(samples))
    for place, (_, running, usage) in enumerate(sorted(samples)):
        unexplained[place * len(unexplained) // len(samples)] += running - usage * ran / taken
    count = len(unexplained)
    error = sqrt(sum(one**2 for one in unexplained) * count / (count - 1)) / ran if count > 1 else LEAST_ERROR
    return Estimate(max(ran / taken * KV_FULL, 1.0), error)


def _kv_samples(engine: EngineWindow) -> list[tuple[Instant, float, float]]:
    """(instant, sequences running, share of the KV cache in use) of scrapes that told both, so many of them."""
    usage = dict(engine.kv_usage.samples)
    found = [(at, running, usage[at]) for at, running in engine.running.samples if at in usage]
    return found[:: len(found) // KV_SAMPLES + 1]


def _at_weight(ordered: Sequence[Load], share: float) -> float:
    """The load below which `share` of the tokens lie."""
    wanted = share * sum(load.tokens for load in ordered)
    passed = 0.0
    for load in ordered:
        passed += load.tokens
        if passed >= wanted:
            return load.running
    return ordered[-1].running
