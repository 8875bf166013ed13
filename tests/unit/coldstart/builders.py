"""Questions for the cold-start planner with defaults: name only what the test is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.balance.coldstart import (
    HardwareRow,
    Lengths,
    ModelRow,
    Plan,
    Question,
    hardware_row,
    model_row,
    plan,
)
from steelyard.balance.coldstart.rollout import TP_SIZES, Engine, engine


def a_model(name: str = "qwen3-14b") -> ModelRow:
    row = model_row(name)
    assert isinstance(row, ModelRow)
    return row


def some_hardware(name: str = "a800-80g") -> HardwareRow:
    row = hardware_row(name)
    assert isinstance(row, HardwareRow)
    return row


def an_engine(tp: int, model: str = "qwen3-14b", hardware: str = "a800-80g") -> Engine:
    found = engine(a_model(model), some_hardware(hardware), tp)
    assert found is not None
    return found


def engines(model: str = "qwen3-14b", hardware: str = "a800-80g") -> list[Engine]:
    return [an_engine(tp, model, hardware) for tp in TP_SIZES]


def some_lengths(requests: int = 512, mean: float = 10_000, seed: int = 7, sigma: float = 0.9) -> Lengths:
    """Lognormal trajectories that fit 40,960 tokens."""
    generator = np.random.default_rng(seed)
    generated = mean * np.exp(generator.normal(-(sigma**2) / 2, sigma, requests))
    prompts = np.exp(generator.normal(7.2, 0.4, requests))
    return Lengths(np.clip(prompts, 1, 4096).round(), np.clip(generated, 1, 36_864).round())


def alike(generated: Sequence[float], prompt: float = 1000) -> Lengths:
    """Trajectories with the same prompt."""
    return Lengths(np.full(len(generated), float(prompt)), np.array(generated, dtype=float))


def a_question(
    gpus: int = 48,
    lengths: Lengths | None = None,
    *,
    model: str = "qwen3-14b",
    hardware: str = "a800-80g",
    **others: Any,
) -> Question:
    return Question(a_model(model), some_hardware(hardware), lengths or some_lengths(), gpus, **others)


def a_plan(question: Question | None = None) -> Plan:
    found = plan(question or a_question())
    assert isinstance(found, Plan), found
    return found
