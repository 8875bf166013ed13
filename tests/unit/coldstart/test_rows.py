"""The rows against what is published about the models, and the engine against the rates it is calibrated with."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.balance.coldstart import BadInput, hardware_names, hardware_row, model_names, model_row
from steelyard.balance.coldstart.rollout import costs, engine
from steelyard.balance.coldstart.rows import Rate, calibration
from tests.unit.coldstart.builders import a_model, alike, an_engine, some_hardware


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("qwen2-5-3b", 3.09e9, 3.09e9),
        ("qwen2-5-7b", 7.61e9, 7.61e9),
        ("qwen3-4b", 4.02e9, 4.02e9),
        ("qwen3-14b", 14.8e9, 14.8e9),
        ("qwen3-30b-a3b", 30.5e9, 3.35e9),
    ],
)
def test_parameters_follow_from_the_architecture(name: str, total: float, active: float) -> None:
    assert a_model(name).parameters == pytest.approx(total, rel=0.01)
    assert a_model(name).active_parameters == pytest.approx(active, rel=0.01)


def test_a_batch_wakes_most_experts_of_a_mixture() -> None:
    mixture = a_model("qwen3-30b-a3b")
    assert mixture.active_parameters < 0.5 * mixture.decode_parameters < 0.5 * mixture.parameters


def test_head_dimensions_are_the_models_own() -> None:
    """hidden / heads would be 80 and 64, and the KV cache 1.6 and 2 times too small."""
    assert {a_model(name).head_dim for name in model_names()} == {128}
    assert a_model("qwen3-4b").kv_bytes(1) == 2 * 36 * 8 * 128 * 2


def test_kv_heads_are_held_twice_where_they_cannot_be_split() -> None:
    few = a_model("qwen2-5-3b")
    assert few.kv_bytes(2) == few.kv_bytes(8) == few.kv_bytes(1) / 2


@pytest.mark.parametrize("rate", calibration().rates, ids=lambda rate: f"TP{rate.tensor_parallel} to {rate.longest}")
def test_the_engine_reproduces_the_published_rates(rate: Rate) -> None:
    one = an_engine(rate.tensor_parallel)
    lengths = alike(np.linspace(rate.shortest + 1, rate.longest, 2000).tolist(), prompt=1)
    seconds = costs(lengths, one)[0].mean() / (8 / rate.tensor_parallel)
    assert lengths.generated.mean() / seconds == pytest.approx(rate.tokens_per_second, rel=0.01)


def test_sizes_between_the_measured_ones_lie_between_them() -> None:
    inefficiencies, stalls, sequences = zip(*(calibration().at(tp) for tp in (1, 2, 4, 8)), strict=True)
    assert list(inefficiencies) == sorted(inefficiencies, reverse=True)
    assert list(stalls) == sorted(stalls)
    assert sequences == (64, 102, 161, 256)


def test_an_unmeasured_pair_is_scaled_by_the_roofline() -> None:
    slow, fast = an_engine(8), an_engine(8, hardware="h100-80g")
    assert slow.step_seconds / fast.step_seconds == pytest.approx(3.35 / 2.0)
    assert slow.prefill_seconds / fast.prefill_seconds == pytest.approx(9.9 / 3.12)


def test_weights_that_do_not_fit_make_no_engine() -> None:
    assert engine(a_model("qwen3-30b-a3b"), some_hardware("ascend-910b3"), 1) is None


@pytest.mark.parametrize(("given", "meant"), [("qwen3-14", "qwen3-14b"), ("Qwen3-14B", "qwen3-14b")])
def test_an_unknown_model_is_answered_with_the_known_and_the_close_ones(given: str, meant: str) -> None:
    found = model_row(given)
    assert isinstance(found, BadInput)
    assert f"did you mean {meant}" in str(found)
    assert all(name in str(found) for name in model_names())


def test_an_unknown_gpu_is_answered_with_the_known_ones() -> None:
    found = hardware_row("tpu")
    assert isinstance(found, BadInput)
    assert all(name in str(found) for name in hardware_names())
    assert "did you mean" not in str(found)
