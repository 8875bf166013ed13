"""The plan before anything ran: how many GPUs train and sample, in which shapes, how long a step takes, and why.

Both times are those of the same batch, whatever the length of the history they are estimated from. The plan is for a
router that knows no lengths, with one TP size for all samplers, because a mixed layout is slower than that unless
lengths are predicted well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steelyard.balance.coldstart.aware import Mixed, classes, mixed
from steelyard.balance.coldstart.lengths import Floats, Lengths
from steelyard.balance.coldstart.rollout import TP_SIZES, USABLE, Demand, Engine, demand, engine, is_calibrated
from steelyard.balance.coldstart.rows import HardwareRow, ModelRow
from steelyard.balance.coldstart.training import Pruned, Table, Training, table
from steelyard.balance.coldstart.words import BadInput, Infeasible

MOST_GPUS = 16_384
MOST_BATCH = 65_536
MOST_CONTEXT = 1_000_000
NEARLY = 1.01
"""GPUs that all together would shorten the iteration by less than a hundredth are left free."""
TRAINING_HEADROOM = 1.25
"""Training gets room where GPUs are left: its efficiency is assumed, not measured."""
ERROR_FOR_MIXED = 0.1
"""Standard error of predicted log lengths up to which a mixed layout is faster than a uniform one."""
CALIBRATED_ERROR, SCALED_ERROR = 0.15, 1.0


@dataclass(frozen=True, eq=False)
class Question:
    """What the plan is for."""

    model: ModelRow
    hardware: HardwareRow
    lengths: Lengths
    gpus: int
    batch: int = 512
    """Trajectories of a training step."""
    context: int | None = None
    """Longest trajectory that must fit, at least the longest of `lengths`."""
    prediction_error: float | None = None
    """Measured standard error of the router's predicted log lengths; None when it predicts none."""

    @property
    def longest(self) -> int:
        return max(self.context or 0, self.lengths.longest)


@dataclass(frozen=True, slots=True)
class Option:
    """The best split with one TP size for all samplers."""

    tp: int
    replicas: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A split that fits the memory, with its predicted times."""

    training: Training
    samplers: Mapping[int, int]
    """TP size -> replicas."""
    sampling_seconds: float
    """Of the whole batch, the tail included."""
    tail_seconds: float
    """Of the longest trajectory alone: no number of samplers gets below it."""
    engines: Mapping[int, Engine]
    """The engine of every TP size that the plan uses."""
    free_gpus: int
    """GPUs that would shorten the iteration by less than a hundredth."""
    options: tuple[Option, ...]
    """Every TP size that fits, with the best it could do."""
    mixed: Mixed | None
    """What several TP sizes and a router that knew every length could do."""
    pruned: tuple[Pruned, ...]
    left_out: tuple[str, ...]
    """TP sizes that samplers cannot have, each with the reason."""
    error: float
    """Relative error to expect of the predicted times."""
    tokens: float
    """Generated tokens of a batch."""

    @property
    def seconds(self) -> float:
        """Of one iteration: sampling and training overlap."""
        return max(self.training.seconds, self.sampling_seconds)

    @property
    def sampler_gpus(self) -> int:
        return sum(tp * replicas for tp, replicas in self.samplers.items())

    @property
    def sampler_memory_bytes(self) -> float:
        """Per GPU: engines fill what they may with KV cache."""
        return max(one.weights_bytes + one.kv_bytes for one in self.engines.values())


def plan(question: Question) -> Plan | Infeasible | BadInput:
    """The fastest split of the GPUs, or what is in its way. Never raises, never returns what does not fit."""
    wrong = _check(question)
    if wrong is not None:
        return wrong
    engines, left_out = engines_of(question)
    if not engines:
        return Infeasible(f"no sampler fits: {'; '.join(left_out)}")
    parallelisms = table_of(question, question.gpus)
    demands = [demand(question.lengths, one, question.batch) for one in engines]
    options = _options(demands, parallelisms.envelope, question.gpus)
    if not options:
        return _too_few(question, min(one.tp for one in engines))
    several = mixed(classes(question.lengths, engines, question.batch), parallelisms.envelope, question.gpus)
    best = min(option.seconds for option in options)
    if several and several.seconds < best and _predicts(question):
        samplers, level = several.samplers, several.seconds
        sampling = several.seconds
    else:
        samplers, level, sampling = _uniform(demands, best * NEARLY)
    trained = train_within(parallelisms, question.gpus - _gpus(samplers), level)
    used = [one for one in demands if one.engine.tp in samplers]
    return Plan(
        training=trained,
        samplers=samplers,
        sampling_seconds=sampling,
        tail_seconds=min(one.tail_seconds for one in used),
        engines={one.engine.tp: one.engine for one in used},
        free_gpus=question.gpus - _gpus(samplers) - trained.gpus,
        options=tuple(options),
        mixed=several,
        pruned=parallelisms.pruned(trained.gpus),
        left_out=left_out,
        error=CALIBRATED_ERROR if is_calibrated(question.model, question.hardware) else SCALED_ERROR,
        tokens=float(question.lengths.generated.mean()) * question.batch,
    )


def _check(question: Question) -> BadInput | None:
    for field, value, low, high in (
        ("gpus", question.gpus, 1, MOST_GPUS),
        ("batch", question.batch, 1, MOST_BATCH),
        ("context", question.longest if question.context is None else question.context, 1, MOST_CONTEXT),
        ("longest trajectory", question.longest, 1, MOST_CONTEXT),
    ):
        if not low <= value <= high:
            return BadInput(field, value, f"must lie between {low:,} and {high:,}")
    error = question.prediction_error
    if error is not None and not 0 <= error <= 10:
        return BadInput("prediction error", error, "must lie between 0 and 10")
    return None


def engines_of(question: Question) -> tuple[list[Engine], tuple[str, ...]]:
    """The engines that can hold the weights and the longest trajectory, and why the others cannot."""
    model, hardware = question.model, question.hardware
    fit, left_out = [], []
    for tp in TP_SIZES:
        one = engine(model, hardware, tp)
        if tp > hardware.gpus_per_node or model.heads % tp:
            left_out.append(f"TP{tp} leaves the node or does not divide {model.heads} attention heads")
        elif one is None:
            left_out.append(f"TP{tp} cannot hold the weights of {model.name} in {USABLE:.0%} of its memory")
        elif one.kv_tokens < question.longest:
            left_out.append(
                f"TP{tp} holds {one.kv_tokens:,.0f} tokens, the longest trajectory has {question.longest:,}"
            )
        else:
            fit.append(one)
    return fit, tuple(left_out)


def table_of(question: Question, gpus: int) -> Table:
    """Every parallelism on at most `gpus` GPUs."""
    return table(question.model, question.hardware, question.lengths, gpus, question.batch, question.longest)


def _options(demands: list[Demand], envelope: Floats, gpus: int) -> list[Option]:
    """For each TP size the number of replicas that makes the longer of both times shortest: all of them are tried."""
    found = []
    for one in demands:
        replicas = np.arange(1, (gpus - 1) // one.engine.tp + 1)
        if len(replicas):
            seconds = np.maximum(one.seconds(replicas), envelope[gpus - one.engine.tp * replicas])
            best = int(np.argmin(seconds))
            if np.isfinite(seconds[best]):
                found.append(Option(one.engine.tp, int(replicas[best]), float(seconds[best])))
    return found


def _uniform(demands: list[Demand], level: float) -> tuple[dict[int, int], float, float]:
    """(samplers, level, seconds): the fewest GPUs of one TP size that sample a batch within `level` seconds."""
    found = []
    for one in demands:
        replicas = np.arange(1, one.batch + 1)
        enough = np.flatnonzero(one.seconds(replicas) <= level)
        if len(enough):
            count = int(replicas[enough[0]])
            found.append((one.engine.tp * count, float(one.seconds(replicas[enough[:1]])[0]), one.engine.tp, count))
    _, seconds, tp, count = min(found)
    return {tp: count}, level, seconds


def train_within(parallelisms: Table, gpus: int, level: float) -> Training:
    """The fewest GPUs that train within `level` and some room, else the fastest that `gpus` allow."""
    enough = np.flatnonzero(parallelisms.envelope[: gpus + 1] <= level / TRAINING_HEADROOM)
    return parallelisms.best(int(enough[0]) if len(enough) else gpus)


def _gpus(samplers: Mapping[int, int]) -> int:
    return sum(tp * replicas for tp, replicas in samplers.items())


def _predicts(question: Question) -> bool:
    return question.prediction_error is not None and question.prediction_error <= ERROR_FOR_MIXED


def _too_few(question: Question, tp: int) -> Infeasible:
    """Sampling needs `tp` GPUs; how many does training need?"""
    least = table_of(question, MOST_GPUS).least()
    if least is None:
        return Infeasible(
            f"no parallelism trains {question.model.name} on {question.longest:,} tokens in the memory of "
            f"{question.hardware.name}"
        )
    return Infeasible(
        f"{question.gpus} GPUs are too few: training takes at least {least.gpus} ({least}), sampling at least {tp}"
    )
