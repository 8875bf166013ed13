"""The third model: plans of any planner are judged by simulating batches that none of them has seen.

Nothing of a planner's formulas is used. Engines are simulated request by request: continuous batching, a KV cache in
blocks, preemption with recomputation when it is full, prefill and tool stalls in the engine's way. Training packs the
real sequences onto ranks, longest first, and runs every micro-batch through a 1F1B pipeline. The engines' two constants
are the judge's own fit to the four published rates (tokens over makespan of the simulated run; the planner reads the
same rates as steady state). Absolute seconds are as uncertain as those rates; the comparison is what counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from steelyard.balance.coldstart.lengths import Lengths
from steelyard.balance.coldstart.rows import HardwareRow, ModelRow

BLOCK = 16
MEMORY = 0.9
RESERVED_BYTES = 3e9
SLOTS = 256
PREFILL = 0.45
"""Share of peak FLOP/s."""
SLOWNESS = {1: 8.65, 2: 7.38, 4: 6.30, 8: 5.38}
"""Step time over the time to read weights and KV cache."""
STALL = {1: 0.0, 2: 0.53, 4: 1.06, 8: 1.59}
"""Seconds of the engine per trajectory."""
DENSE, ATTENTION = 0.45, 0.3
"""Share of peak FLOP/s of matrix products and of attention in training."""
COLLECTIVE_SECONDS = 8e-6


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan as the judge sees it."""

    tp: int
    pp: int
    dp: int
    micro_batch: int
    samplers: Mapping[int, int]
    """TP size -> replicas."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Seconds of one iteration, mean over the batches; training and sampling overlap."""

    seconds: float
    train_seconds: float
    sample_seconds: float
    fits: bool
    """Whether training fits the memory; where not, the seconds are what it would take if it did."""


class Engine:
    """One replica: serves a closed set of requests in order of arrival."""

    def __init__(self, model: ModelRow, hardware: HardwareRow, tp: int) -> None:
        weights = model.parameters * 2 / tp
        kv = 2 * 2 * model.layers * model.head_dim * max(model.kv_heads / tp, 1)
        slow = SLOWNESS[tp] / hardware.hbm_bytes_per_second
        self.base, self.per_token = weights * slow, kv * slow
        self.prefill = 2 * model.active_parameters / (tp * hardware.flops * PREFILL)
        self.stall = STALL[tp]
        self.capacity = (MEMORY * hardware.hbm_bytes - weights - RESERVED_BYTES) / kv

    def serve(self, requests: list[tuple[int, int]]) -> float:
        """Seconds until the last of `requests` (prompt, generated) is done.

        Between two events (a request ends, the cache is full) the running set is fixed: its steps are summed at once.
        """
        waiting = [(prompt, generated, 0) for prompt, generated in reversed(requests)]
        running: list[tuple[int, int, int, int]] = []  # (step of its end, order, tokens at step 0, prompt)
        now, step, live, order = 0.0, 0, 0, 0
        while waiting or running:
            while waiting and len(running) < SLOTS and self._admits(waiting[-1], live, len(running)):
                prompt, generated, done = waiting.pop()
                now += self.prefill * (prompt + done) + (self.stall if done == 0 else 0.0)
                heapq.heappush(running, (step + generated - done, order, prompt + done - step, prompt))
                live += prompt + done
                order += 1
            count = len(running)
            room = (self.capacity - live - count * BLOCK / 2) // count
            steps = running[0][0] - step
            preempt = room < steps and count > 1
            steps = max(min(steps, int(room)), 1) if preempt else steps
            now += steps * (self.base + self.per_token * live) + self.per_token * count * steps * (steps - 1) / 2
            step, live = step + steps, live + count * steps
            while running and running[0][0] <= step:
                _, _, offset, _ = heapq.heappop(running)
                live -= offset + step
            if preempt and len(running) > 1 and live + len(running) * (BLOCK / 2 + 1) >= self.capacity:
                live -= self._preempt(running, waiting, step)
        return now

    def _admits(self, request: tuple[int, int, int], live: int, running: int) -> bool:
        prompt, _, done = request
        return running == 0 or live + prompt + done + (running + 1) * BLOCK <= 0.99 * self.capacity

    def _preempt(self, running: list[tuple[int, int, int, int]], waiting: list[tuple[int, int, int]], step: int) -> int:
        """The newest goes back to the queue and will be prefilled again with what it had written."""
        index = max(range(len(running)), key=lambda one: running[one][1])
        end, _, offset, prompt = running.pop(index)
        heapq.heapify(running)
        done = offset + step - prompt
        waiting.append((prompt, done + end - step, done))
        return offset + step


def sampling(
    model: ModelRow, hardware: HardwareRow, samplers: Mapping[int, int], batch: Lengths, informed: bool
) -> float:
    """Seconds until all engines are done.

    A router that is not informed gives each engine its share by count, weighted by how fast it serves a mean request;
    an informed one knows every length and sends the longest first to where it would be done first.
    """
    sizes = [tp for tp, count in samplers.items() for _ in range(count)]
    engines = {tp: Engine(model, hardware, tp) for tp in samplers}
    requests = [(int(p), int(g)) for p, g in zip(batch.prompt, batch.generated, strict=True)]
    mean = (int(batch.prompt.mean()), int(batch.generated.mean()))
    alone = {tp: _seconds_each(engine, mean) for tp, engine in engines.items()}
    queues: list[list[tuple[int, int]]] = [[] for _ in sizes]
    load = np.zeros(len(sizes))
    step = np.array([engines[tp].base for tp in sizes])
    if informed:
        requests.sort(key=sum, reverse=True)
    for prompt, generated in requests:
        weight = (prompt + generated) ** 2 / (mean[0] + mean[1]) ** 2 if informed else 1.0
        cost = np.array([weight * alone[tp] for tp in sizes])
        done = load + cost
        if informed:
            done = np.maximum(done, step * generated + load)
        chosen = int(np.argmin(done))
        load[chosen] += cost[chosen]
        queues[chosen].append((prompt, generated))
    return max(engines[tp].serve(queue) for tp, queue in zip(sizes, queues, strict=True) if queue)


def _seconds_each(engine: Engine, mean: tuple[int, int]) -> float:
    """Seconds per mean request of a busy engine."""
    count = 24
    return engine.serve([mean] * count) / count


def training(model: ModelRow, hardware: HardwareRow, layout: Layout, batch: Lengths) -> float:
    """Seconds of one step: the slowest rank's pipeline, then the gradients."""
    ranks: list[list[float]] = [[] for _ in range(layout.dp)]
    heap = [(0.0, rank) for rank in range(layout.dp)]
    for tokens in sorted(batch.total, reverse=True):
        load, rank = heapq.heappop(heap)
        cost = _forward(model, hardware, layout, float(tokens))
        ranks[rank].append(cost)
        heapq.heappush(heap, (load + cost, rank))
    across = hardware.inter_node_bytes_per_second / hardware.gpus_per_node
    handed = float(batch.total.mean()) * layout.micro_batch * model.hidden * 2 / across / 4 if layout.pp > 1 else 0.0
    slowest = max(_pipeline(_micros(rank, layout.micro_batch), layout.pp, handed) for rank in ranks)
    held = model.parameters / (layout.tp * layout.pp)
    whole = layout.tp * layout.pp * layout.dp <= hardware.gpus_per_node
    link = hardware.intra_node_bytes_per_second if whole else across
    return slowest + (layout.dp - 1) / layout.dp * 4 * held / link + 1.0


def _micros(costs: list[float], size: int) -> list[float]:
    return [sum(costs[start : start + size]) for start in range(0, len(costs), size)]


def _forward(model: ModelRow, hardware: HardwareRow, layout: Layout, tokens: float) -> float:
    """Seconds of one sequence's forward pass through one pipeline stage."""
    tp = layout.tp
    dense = 2 * model.active_parameters * tokens / (tp * hardware.flops * DENSE)
    attention = 2 * model.layers * model.heads * model.head_dim * tokens**2 / (tp * hardware.flops * ATTENTION)
    reduce = 0.0
    if tp > 1:
        volume = 2 * 2 * (tp - 1) / tp * tokens * model.hidden * 2 / hardware.intra_node_bytes_per_second
        reduce = model.layers * (volume + 2 * COLLECTIVE_SECONDS)
    return (dense + attention + reduce) / layout.pp


def _pipeline(forward: list[float], stages: int, handed: float) -> float:
    """1F1B: each stage runs as many forwards as it is away from the end, then alternates; a backward with its
    recomputation takes three forwards. Returns when the last backward leaves the first stage."""
    count = len(forward)
    schedules = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, count)
        order = [(True, micro) for micro in range(ahead)]
        for micro in range(count - ahead):
            order += [(True, micro + ahead), (False, micro)]
        schedules.append(order + [(False, micro) for micro in range(count - ahead, count)])
    ready: dict[tuple[int, bool, int], float] = {}
    clock, position = [0.0] * stages, [0] * stages
    left = sum(map(len, schedules))
    while left:
        for stage in range(stages):
            while position[stage] < len(schedules[stage]):
                forth, micro = schedules[stage][position[stage]]
                before = (stage - 1, True, micro) if forth else (stage + 1, False, micro)
                first = stage == 0 if forth else stage == stages - 1
                since = 0.0 if first else ready.get(before, inf)
                if since == inf:
                    break
                clock[stage] = max(clock[stage], since) + forward[micro] * (1 if forth else 3)
                ready[stage, forth, micro] = clock[stage] + handed
                position[stage] += 1
                left -= 1
    return max(clock)


def fits(model: ModelRow, hardware: HardwareRow, layout: Layout, context: int) -> bool:
    """Whether sharded weights, gradients and moments, one layer's copy and checkpointed activations fit a GPU."""
    held = model.parameters / (layout.tp * layout.pp)
    state = 16 * held / layout.dp + 2 * 2 * held / (model.layers / layout.pp)
    activations = layout.micro_batch * context * model.hidden * 2 * model.layers / layout.tp
    return state + activations + RESERVED_BYTES <= 0.95 * hardware.hbm_bytes


def judge(
    model: ModelRow, hardware: HardwareRow, layout: Layout, batches: list[Lengths], context: int, informed: bool
) -> Verdict:
    """The mean iteration over `batches`."""
    train = [training(model, hardware, layout, batch) for batch in batches]
    sample = [sampling(model, hardware, layout.samplers, batch, informed) for batch in batches]
    both = [max(pair) for pair in zip(train, sample, strict=True)]
    return Verdict(
        float(np.mean(both)),
        float(np.mean(train)),
        float(np.mean(sample)),
        fits(model, hardware, layout, context),
    )


def published_rate(model: ModelRow, hardware: HardwareRow, tp: int, shortest: int, longest: int) -> float:
    """Tokens per second of eight GPUs on 512 trajectories of lengths spread evenly between two bounds: what the four
    published rates measured, and what SLOWNESS and STALL are fitted to."""
    generated = np.random.default_rng(1).permutation(np.linspace(max(shortest, 1), longest, 512)).astype(int)
    engine, replicas = Engine(model, hardware, tp), 8 // tp
    seconds = max(engine.serve([(1, int(g)) for g in generated[index::replicas]]) for index in range(replicas))
    return float(generated.sum()) / seconds
