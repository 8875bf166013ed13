"""Sampling: what a trajectory costs an engine of each TP size, and how long a batch takes on n engines.

A decode step of an engine with b sequences and A live tokens takes `step + token * A`: it reads the weights once and
the live KV cache once, and TP divides both once. Integrated over a trajectory (prompt p, generated g; live tokens rise
from p to p + g) that gives two figures, both additive over trajectories:

    work V = stall + prefill * p + token * ((p + g)^2 - p^2) / 2
    time W = V + step * (integral over g of max(1 / sequences, live / kv_tokens))

W shares the fixed cost of a step among the sequences that run beside it when the engine is full. Engines n that serve a
batch need at least sum(W) / n, and at least sum(V) / n + step * longest: the longest trajectory cannot be shared, which
is the tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.coldstart.lengths import Floats, Lengths
from steelyard.balance.coldstart.rows import BYTES, HardwareRow, ModelRow, calibration, hardware_row, model_row

TP_SIZES = (1, 2, 4, 8)
USABLE = 0.92
"""Share of the memory that an engine or a trainer may plan with (vLLM's own default)."""
WORKSPACE_BYTES = 2e9
"""Activations, CUDA graphs and the runtime, per GPU."""
KV_PACKED = 0.96
"""The rest of the KV cache is lost to block ends."""
PREFILL_EFFICIENCY = 0.5
"""Share of the peak FLOP/s that prefill reaches."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One inference engine over `tp` GPUs. Seconds, tokens, bytes."""

    tp: int
    step_seconds: float
    """A decode step without live tokens: weights read, times the measured inefficiency."""
    token_seconds: float
    """What each live token adds to a step."""
    prefill_seconds: float
    """Per token of prompt."""
    stall_seconds: float
    """Per trajectory, besides prefill and decoding."""
    sequences: int
    """Most trajectories at once."""
    kv_tokens: float
    """What the KV cache holds."""
    weights_bytes: float
    """Per GPU."""
    kv_bytes: float
    """Per GPU, all of the KV cache."""


def engine(model: ModelRow, hardware: HardwareRow, tp: int) -> Engine | None:
    """The engine of one TP size; None when its weights do not fit.

    Where no rate was measured the inefficiency is the measured pair's: time scales with the roofline. The stall scales
    with compute, as prefill does.
    """
    measured = calibration()
    inefficiency, stall, sequences = measured.at(tp)
    weights = model.parameters * BYTES / tp
    pool = USABLE * hardware.hbm_bytes - weights - WORKSPACE_BYTES
    if pool <= 0:
        return None
    seconds_per_byte = inefficiency / hardware.hbm_bytes_per_second
    return Engine(
        tp=tp,
        step_seconds=model.decode_parameters * BYTES / tp * seconds_per_byte,
        token_seconds=model.kv_bytes(tp) * seconds_per_byte,
        prefill_seconds=_compute(model, hardware) / (tp * PREFILL_EFFICIENCY),
        stall_seconds=stall * _compute(model, hardware) / _measured_compute(),
        sequences=sequences,
        kv_tokens=pool / model.kv_bytes(tp) * KV_PACKED,
        weights_bytes=weights,
        kv_bytes=pool,
    )


def is_calibrated(model: ModelRow, hardware: HardwareRow) -> bool:
    measured = calibration()
    return (model.name, hardware.name) == (measured.model, measured.hardware)


def _compute(model: ModelRow, hardware: HardwareRow) -> float:
    """Seconds per token of a forward pass at peak FLOP/s on one GPU."""
    return 2 * model.active_parameters / hardware.flops


def _measured_compute() -> float:
    measured = calibration()
    model, hardware = model_row(measured.model), hardware_row(measured.hardware)
    assert isinstance(model, ModelRow)
    assert isinstance(hardware, HardwareRow)
    return _compute(model, hardware)


def costs(lengths: Lengths, engine: Engine) -> tuple[Floats, Floats]:
    """(W, V) of every trajectory in seconds of the engine, each of shape (requests,)."""
    start, end = lengths.prompt, lengths.total
    shared = engine.kv_tokens / engine.sequences  # below so many live tokens a sequence, slots are scarcer than KV
    below = np.clip(np.minimum(end, shared) - start, 0, None)
    above = np.where(end > shared, (end**2 - np.maximum(start, shared) ** 2) / 2, 0.0)
    variable = engine.stall_seconds + engine.prefill_seconds * start + engine.token_seconds * (end**2 - start**2) / 2
    return variable + engine.step_seconds * (below / engine.sequences + above / engine.kv_tokens), variable


@dataclass(frozen=True, eq=False)
class Demand:
    """What a batch of `batch` trajectories asks of the engines of one TP size."""

    engine: Engine
    batch: int
    mean_time: float
    """Mean W of a trajectory."""
    mean_work: float
    """Mean V of a trajectory."""
    tail_seconds: float
    """What the longest of the batch takes from its first step to its last, besides the others' work."""

    def seconds(self, replicas: NDArray[np.int64]) -> Floats:
        """Seconds of the batch on each number of replicas, for a router that knows no lengths: every replica gets as
        many trajectories as any other, and one of them the longest."""
        share = np.ceil(self.batch / replicas)
        return np.maximum(share * self.mean_time, (share - 1) * self.mean_work + self.tail_seconds)


def demand(lengths: Lengths, engine: Engine, batch: int) -> Demand:
    """The demand of a batch drawn like `lengths`, however many those are."""
    time, work = costs(lengths, engine)
    longest = longest_of(lengths.generated, batch)
    own = float(np.quantile(work, 1 - 0.5 / batch, method="higher"))
    return Demand(engine, batch, float(time.mean()), float(work.mean()), own + engine.step_seconds * longest)


def longest_of(generated: Floats, batch: int) -> float:
    """Median of the longest of `batch` draws."""
    return float(np.quantile(generated, 1 - 0.5 / batch, method="higher"))
