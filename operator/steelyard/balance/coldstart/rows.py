"""Rows of data: models, hardware, and the one measured calibration, from rows.toml beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, log
from typing import Any

from steelyard.balance.coldstart.words import BadInput, unknown_row

BYTES = 2
"""BF16, for weights, KV cache and gradients alike."""
DECODE_BATCH = 32
"""Sequences of a typical decode step: how many experts of a mixture it wakes."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Architecture of a decoder with grouped-query attention and gated feed-forward layers."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied_embeddings: bool = False
    experts: int = 1
    experts_active: int = 1

    @property
    def parameters(self) -> float:
        return self._parameters(self.experts)

    @property
    def active_parameters(self) -> float:
        """Parameters that work on one token."""
        return self._parameters(self.experts_active)

    @property
    def decode_parameters(self) -> float:
        """Parameters that a decode step reads: a batch wakes more experts than one token does."""
        asleep = (1 - self.experts_active / self.experts) ** DECODE_BATCH
        return self._parameters(self.experts * (1 - asleep))

    def _parameters(self, experts: float) -> float:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        router = self.hidden * self.experts if self.experts > 1 else 0
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return self.layers * (attention + router + experts * 3 * self.hidden * self.ffn) + embeddings

    def kv_bytes(self, tp: int) -> float:
        """KV cache of one token on each of `tp` GPUs; a KV head is never split, so it may be held more than once."""
        return 2.0 * self.layers * max(1, self.kv_heads // tp) * self.head_dim * BYTES


@dataclass(frozen=True, slots=True)
class HardwareRow:
    """One GPU and what connects it. Bytes, bytes per second, FLOP per second."""

    name: str
    flops: float
    hbm_bytes_per_second: float
    hbm_bytes: float
    intra_node_bytes_per_second: float
    inter_node_bytes_per_second: float
    """All network cards of a node together."""
    gpus_per_node: int
    resource: str
    """Kubernetes' name of the device."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A published throughput of eight GPUs: lengths uniform between two bounds, one TP size."""

    tensor_parallel: int
    shortest: int
    longest: int
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Empirical constants of a rollout stack, and the rates they come from."""

    model: str
    hardware: str
    tensor_parallel: tuple[int, ...]
    inefficiency: tuple[float, ...]
    stall_seconds: tuple[float, ...]
    sequences: tuple[int, ...]
    rates: tuple[Rate, ...]

    def at(self, tp: int) -> tuple[float, float, int]:
        """(inefficiency, stall seconds, sequences at once) of a TP size: measured at the ends, log-linear between."""
        low, high = self.tensor_parallel[0], self.tensor_parallel[-1]
        share = min(max(log(tp / low) / log(high / low), 0.0), 1.0)
        inefficiency, stall, sequences = (
            exp((1 - share) * log(ends[0]) + share * log(ends[-1]))
            for ends in (self.inefficiency, self.stall_seconds, self.sequences)
        )
        return inefficiency, stall, round(sequences)


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("rows.toml").read_text())


def model_names() -> list[str]:
    return sorted(_data()["models"])


def hardware_names() -> list[str]:
    return sorted(_data()["hardware"])


def model_row(name: str) -> ModelRow | BadInput:
    """The row `name`, or what is known instead."""
    row = _data()["models"].get(name)
    return unknown_row("model", name, model_names()) if row is None else ModelRow(name=name, **row)


def hardware_row(name: str) -> HardwareRow | BadInput:
    """The row `name`, or what is known instead."""
    row = _data()["hardware"].get(name)
    return unknown_row("hardware", name, hardware_names()) if row is None else HardwareRow(name=name, **row)


def calibration() -> Calibration:
    """The measured constants."""
    data = _data()["calibration"]
    return Calibration(
        model=data["model"],
        hardware=data["hardware"],
        tensor_parallel=tuple(data["tensor_parallel"]),
        inefficiency=tuple(data["inefficiency"]),
        stall_seconds=tuple(data["stall_seconds"]),
        sequences=tuple(data["sequences"]),
        rates=tuple(Rate(**rate) for rate in data["rates"]),
    )
