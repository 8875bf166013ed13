"""Training: every TP x PP x DP x micro-batch at once, its seconds per step and bytes per GPU, and what rules it out.

FLOPs of forward, backward and recomputation from the architecture (Narayanan et al. 2021), pipeline bubble and the
longest sequence on top; weights, gradients and optimiser sharded over data-parallel ranks (ZeRO). The efficiency is an
assumption, not a measurement: replace it with the first real step times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.coldstart.lengths import Floats, Lengths
from steelyard.balance.coldstart.rollout import TP_SIZES, USABLE, WORKSPACE_BYTES
from steelyard.balance.coldstart.rows import BYTES, HardwareRow, ModelRow

MICRO_BATCHES = (1, 2, 4, 8)
DEEPEST_PIPELINE = 20
EFFICIENCY = 0.42
"""Assumed share of the peak FLOP/s without tensor parallelism; each doubling of TP costs TP_LOSS of it."""
TP_LOSS = 0.95
EXPOSED = 0.5
"""Share of communication that computation does not hide."""
STEP_SECONDS = 0.5
"""Optimiser and bookkeeping, per step."""
STATE_BYTES = 16
"""Per parameter: weight and gradient in BF16, FP32 weight and two moments."""
GATHERED = 0.3
"""Share of the rank's weights that is gathered at a time."""
LAYER_BYTES = 34
"""Activations of one layer per token and hidden unit while it is recomputed (Korthikanti et al. 2022)."""
LOGIT_TOKENS = 4096
"""Tokens whose logits are held at a time, in FP32 and three copies."""


@dataclass(frozen=True, slots=True)
class Training:
    """One parallelism and what it takes."""

    tp: int
    pp: int
    dp: int
    micro_batch: int
    seconds: float
    """Of one step on the whole batch."""
    memory_bytes: float
    """Per GPU."""

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        return f"TP{self.tp} x PP{self.pp} x DP{self.dp}, micro-batch {self.micro_batch}"


@dataclass(frozen=True, slots=True)
class Pruned:
    """Why some parallelisms are out: how many, and the fastest of them on no more GPUs than the plan trains with."""

    reason: str
    count: int
    best: Training | None


@dataclass(frozen=True, eq=False)
class Table:
    """All parallelisms, one per entry; every array has the same shape."""

    tp: NDArray[np.int64]
    pp: NDArray[np.int64]
    dp: NDArray[np.int64]
    micro_batch: NDArray[np.int64]
    gpus: NDArray[np.int64]
    seconds: Floats
    memory_bytes: Floats
    reasons: tuple[tuple[str, NDArray[np.bool_]], ...]
    """What rules entries out, each entry under its first reason."""
    fits: NDArray[np.bool_]
    envelope: Floats
    """Shape (gpus + 1,): seconds of the fastest entry on at most n GPUs, inf where none fits."""

    def best(self, gpus: int) -> Training:
        """The fastest on at most `gpus` GPUs; among equals the one with the fewest. The envelope there is finite."""
        return self._entry(self._fastest(self.fits & (self.gpus <= gpus)))

    def least(self) -> Training | None:
        """The one that trains on the fewest GPUs."""
        fit = np.flatnonzero(self.fits)
        return self._entry(int(fit[np.argmin(self.gpus[fit])])) if len(fit) else None

    def pruned(self, gpus: int) -> tuple[Pruned, ...]:
        found = []
        for reason, mask in self.reasons:
            near = mask & (self.gpus <= gpus)
            best = self._entry(self._fastest(near)) if near.any() else None
            found.append(Pruned(reason, int(mask.sum()), best))
        return tuple(one for one in found if one.count)

    def _fastest(self, mask: NDArray[np.bool_]) -> int:
        candidates = np.flatnonzero(mask)
        order = np.lexsort((self.gpus[candidates], self.seconds[candidates]))
        return int(candidates[order[0]])

    def _entry(self, index: int) -> Training:
        return Training(
            int(self.tp[index]),
            int(self.pp[index]),
            int(self.dp[index]),
            int(self.micro_batch[index]),
            float(self.seconds[index]),
            float(self.memory_bytes[index]),
        )


def table(model: ModelRow, hardware: HardwareRow, lengths: Lengths, gpus: int, batch: int, context: int) -> Table:
    """Every parallelism on at most `gpus` GPUs for a step on `batch` trajectories of at most `context` tokens."""
    tp, pp, dp, micro = _candidates(model, gpus, batch)
    used = tp * pp * dp
    seconds = _seconds(model, hardware, lengths, (tp, pp, dp, micro), batch)
    memory = _memory(model, (tp, pp, dp, micro), context)
    ruled_out = (
        (f"TP does not divide the {model.heads} attention heads or leaves the node", _uncut(model, hardware, tp)),
        (f"DP x micro-batch does not divide the batch of {batch}", batch % (dp * micro) != 0),
        (
            f"memory: more than {USABLE:.0%} of {hardware.hbm_bytes / 1e9:.0f} GB a GPU",
            memory > USABLE * hardware.hbm_bytes,
        ),
    )
    open_, reasons = np.ones(len(tp), bool), []
    for reason, mask in ruled_out:
        reasons.append((reason, mask & open_))
        open_ = open_ & ~mask
    best = np.full(gpus + 1, np.inf)
    np.minimum.at(best, used[open_], seconds[open_])
    return Table(tp, pp, dp, micro, used, seconds, memory, tuple(reasons), open_, np.minimum.accumulate(best))


def _candidates(model: ModelRow, gpus: int, batch: int) -> tuple[NDArray[np.int64], ...]:
    depths = [depth for depth in range(1, DEEPEST_PIPELINE + 1) if model.layers % depth == 0]
    rows = [
        np.stack(
            [
                np.full(most * len(MICRO_BATCHES), tp),
                np.full(most * len(MICRO_BATCHES), pp),
                np.repeat(np.arange(1, most + 1), len(MICRO_BATCHES)),
                np.tile(MICRO_BATCHES, most),
            ]
        )
        for tp in TP_SIZES
        for pp in depths
        if (most := min(gpus // (tp * pp), batch)) > 0
    ]
    tp, pp, dp, micro = np.concatenate(rows, axis=1)
    return tp, pp, dp, micro


def _uncut(model: ModelRow, hardware: HardwareRow, tp: NDArray[np.int64]) -> NDArray[np.bool_]:
    uncut: NDArray[np.bool_] = (model.heads % tp != 0) | (tp > hardware.gpus_per_node)
    return uncut


def _seconds(
    model: ModelRow, hardware: HardwareRow, lengths: Lengths, shape: tuple[NDArray[np.int64], ...], batch: int
) -> Floats:
    """Seconds of a step. Sequences differ in length: a pipeline of equal stages takes all its micro-batches and pp - 1
    times the longest; and one data-parallel rank has the longest sequence."""
    tp, pp, dp, micro = shape
    total = lengths.total
    mean, longest = float(total.mean()), float(np.quantile(total, 1 - 0.5 / batch, method="higher"))
    one = _sequence(model, hardware, tp, mean, float((total**2).mean()))
    stretch = _sequence(model, hardware, tp, longest, longest**2) - one
    micros = np.ceil(batch / (dp * micro))
    pipeline = (micros * micro * one + (pp - 1) * (micro * one + stretch)) / pp + np.where(dp > 1, stretch / pp, 0.0)
    across = hardware.inter_node_bytes_per_second / hardware.gpus_per_node
    handed = 2 * (micros + pp - 1) * micro * mean * model.hidden * BYTES / across
    link = np.where(tp * pp * dp <= hardware.gpus_per_node, hardware.intra_node_bytes_per_second, across)
    gradients_and_weights = (dp - 1) / dp * 3 * BYTES * model.parameters / (tp * pp) / link
    step: Floats = pipeline + EXPOSED * (np.where(pp > 1, handed, 0.0) + gradients_and_weights) + STEP_SECONDS
    return step


def _sequence(
    model: ModelRow, hardware: HardwareRow, tp: NDArray[np.int64], tokens: float, tokens_squared: float
) -> Floats:
    """Seconds of a sequence through all layers on `tp` GPUs, forward, backward and recomputation."""
    speed = tp * hardware.flops * EFFICIENCY * TP_LOSS ** np.log2(tp)
    reduced = 6 * model.layers * 2 * (tp - 1) / tp * model.hidden * BYTES * tokens  # three passes, two a layer
    sequence: Floats = (
        _flops(model, tokens, tokens_squared) / speed + EXPOSED * reduced / hardware.intra_node_bytes_per_second
    )
    return sequence


def _flops(model: ModelRow, tokens: float, tokens_squared: float) -> float:
    """Forward, backward and one recomputed forward pass of a sequence, causal attention included."""
    attention = model.layers * model.heads * model.head_dim
    return 4 * (2 * model.active_parameters * tokens + 2 * attention * tokens_squared)


def _memory(model: ModelRow, shape: tuple[NDArray[np.int64], ...], context: int) -> Floats:
    tp, pp, dp, micro = shape
    held = model.parameters / (tp * pp)
    state = STATE_BYTES * held / dp + GATHERED * BYTES * held
    # of every micro-batch: as many are in flight as there are pipeline stages, each stage with its share of the layers
    hidden = micro * context * model.hidden / tp
    activations = hidden * (BYTES * model.layers + LAYER_BYTES)
    logits = 3 * 4 * LOGIT_TOKENS * model.vocab / tp
    return state + activations + logits + WORKSPACE_BYTES
