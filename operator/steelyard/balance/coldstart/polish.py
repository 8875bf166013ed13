"""A plan ranked by simulation instead of formulas: seconds of work, for people, never inside the operator's loop.

Neighbours of the plan (other TP sizes, a few replicas more or less, training with what is left) are tried on batches
drawn from the history, each request simulated through the continuous batching of its engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from steelyard.balance.coldstart.lengths import Floats, Lengths
from steelyard.balance.coldstart.plan import NEARLY, Plan, Question, engines_of, table_of, train_within
from steelyard.balance.coldstart.rollout import Engine, demand
from steelyard.balance.coldstart.training import Training

SEED = 1
BATCHES = 4
MOST_SIMULATED = 65_536
"""Trajectories of each candidate: of very large batches fewer are drawn."""
CANDIDATES = 24
STRIDE = 0.06
"""Numbers of replicas that are tried lie about so far apart."""
KEPT_FREE = 0.5
"""Share of what the running trajectories have still to write that admission keeps free in the KV cache."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    engine: Engine
    replicas: int
    training: Training
    estimate: float

    @property
    def gpus(self) -> int:
        return self.engine.tp * self.replicas + self.training.gpus


def polish(question: Question, found: Plan) -> Plan:
    """The neighbour of `found` with the shortest simulated iteration, with its simulated sampling time."""
    batches = _batches(question)
    simulated = [
        (max(sampling, one.training.seconds), sampling, one)
        for one in _candidates(question)
        for sampling in [_mean_seconds(one, batches)]
    ]
    shortest = min(seconds for seconds, _, _ in simulated)
    _, sampling, best = min(
        (entry for entry in simulated if entry[0] <= shortest * NEARLY), key=lambda entry: (entry[2].gpus, entry[0])
    )
    return replace(
        found,
        training=best.training,
        samplers={best.engine.tp: best.replicas},
        sampling_seconds=sampling,
        tail_seconds=demand(question.lengths, best.engine, question.batch).tail_seconds,
        engines={best.engine.tp: best.engine},
        free_gpus=question.gpus - best.gpus,
    )


def _batches(question: Question) -> list[Lengths]:
    batches = max(min(BATCHES, MOST_SIMULATED // question.batch), 1)
    generator, lengths = np.random.default_rng(SEED), question.lengths
    drawn = [generator.integers(0, len(lengths), question.batch) for _ in range(batches)]
    return [Lengths(lengths.prompt[index], lengths.generated[index]) for index in drawn]


def _candidates(question: Question) -> list[_Candidate]:
    """The most promising splits by the formulas, of every TP size."""
    parallelisms, found = table_of(question, question.gpus), []
    for one in engines_of(question)[0]:
        wanted = demand(question.lengths, one, question.batch)
        for replicas in _spread(min((question.gpus - 1) // one.tp, question.batch)):
            left = question.gpus - one.tp * replicas
            if np.isfinite(parallelisms.envelope[left]):
                estimate = max(float(wanted.seconds(np.array([replicas]))[0]), float(parallelisms.envelope[left]))
                found.append(_Candidate(one, replicas, train_within(parallelisms, left, estimate), estimate))
    return sorted(found, key=lambda candidate: candidate.estimate)[:CANDIDATES]


def _spread(most: int) -> Iterator[int]:
    """1 to `most`, each when it is small, then ever wider apart."""
    replicas = 1
    while replicas <= most:
        yield replicas
        replicas = max(replicas + 1, round(replicas * (1 + STRIDE)))


def _mean_seconds(candidate: _Candidate, batches: list[Lengths]) -> float:
    replicas = candidate.replicas
    return float(
        np.mean(
            [
                max(
                    simulate(candidate.engine, batch.prompt[index::replicas], batch.generated[index::replicas])
                    for index in range(min(replicas, len(batch)))
                )
                for batch in batches
            ]
        )
    )


def simulate(engine: Engine, prompts: Floats, generated: Floats) -> float:
    """Seconds until an engine has served these trajectories, admitted in order as slots and KV cache allow."""
    queue = list(zip(prompts.tolist(), generated.tolist(), strict=True))[::-1]
    running: list[tuple[float, float]] = []  # (step at which it ends, tokens it then holds)
    now = step = live = promised = 0.0
    while queue or running:
        while queue and len(running) < engine.sequences:
            prompt, written = queue[-1]
            if running and live + prompt + KEPT_FREE * (promised + written) > engine.kv_tokens:
                break
            queue.pop()
            now += engine.stall_seconds + engine.prefill_seconds * prompt
            live, promised = live + prompt, promised + written
            heappush(running, (step + written, prompt + written))
        end, tokens = heappop(running)
        steps, count = end - step, len(running) + 1
        now += steps * (engine.step_seconds + engine.token_seconds * (live + count * steps / 2))
        live, promised, step = live + count * steps - tokens, promised - count * steps, end
    return now
