"""The plan itself: what it promises, what it leaves free, and why there is none."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from steelyard.balance.coldstart import BadInput, Infeasible, Lengths, hardware_names, model_names, plan, polish
from steelyard.balance.coldstart.plan import NEARLY, TRAINING_HEADROOM, Question
from steelyard.balance.coldstart.rollout import TP_SIZES, USABLE, demand
from steelyard.balance.coldstart.training import table
from tests.unit.coldstart.builders import a_model, a_plan, a_question, alike, an_engine, some_hardware, some_lengths

DEEP = replace(a_model(), name="deep", layers=1600)
WIDE_KV = replace(a_model(), name="wide", kv_heads=40)

SIZES = [2, 3, 5, 8, 13, 48, 128, 255, 1024, 4096]


def assert_fits(question: Question) -> None:
    found, memory = a_plan(question), question.hardware.hbm_bytes
    assert found.training.memory_bytes <= USABLE * memory
    assert found.sampler_memory_bytes <= USABLE * memory
    assert all(one.kv_tokens >= question.longest for one in found.engines.values())
    assert found.sampler_gpus + found.training.gpus + found.free_gpus == question.gpus
    assert found.free_gpus >= 0
    assert question.batch % (found.training.dp * found.training.micro_batch) == 0


@pytest.mark.parametrize("gpus", SIZES)
def test_a_small_model_has_a_plan_that_fits_at_every_size(gpus: int) -> None:
    assert_fits(a_question(gpus, model="qwen2-5-3b", context=16_384))


@pytest.mark.parametrize(("model", "hardware"), [*product(model_names(), hardware_names())])
def test_every_pair_of_rows_has_a_plan_that_fits(model: str, hardware: str) -> None:
    assert_fits(a_question(64, model=model, hardware=hardware))


def test_the_default_is_one_tp_size() -> None:
    assert len(a_plan().samplers) == 1


@pytest.mark.parametrize(("error", "sizes"), [(None, 1), (0.2, 1), (0.1, 2), (0.0, 2)])
def test_sizes_are_mixed_only_for_a_router_that_predicts_well(error: float | None, sizes: int) -> None:
    found = a_plan(a_question(48, prediction_error=error))
    assert len(found.samplers) == sizes
    assert found.mixed
    assert found.mixed.seconds < max(a_plan().seconds, 1)


@pytest.mark.parametrize(("gpus", "apart"), [(8, 0), (48, 0), (128, 0), (256, 0.1), (1024, 0), (4096, 0)])
def test_the_split_does_not_depend_on_how_full_the_history_is(gpus: int, apart: float) -> None:
    """Three random histories of one distribution; where they differ, it is by their own noise."""
    found = [a_plan(a_question(gpus, some_lengths(requests), context=40_960)) for requests in (128, 512, 4096)]
    samplers = [one.sampler_gpus for one in found]
    assert max(samplers) <= (1 + apart) * min(samplers)


def test_a_history_told_twice_gives_the_same_plan() -> None:
    once = some_lengths(400)
    thrice = Lengths(np.tile(once.prompt, 3), np.tile(once.generated, 3))
    first, second = a_plan(a_question(96, once)), a_plan(a_question(96, thrice))
    assert first.samplers == second.samplers
    assert str(first.training) == str(second.training)
    assert first.seconds == pytest.approx(second.seconds, rel=0.02)


@pytest.mark.parametrize("gpus", [6, 12, 24, 40])
def test_no_other_split_with_one_size_is_faster(gpus: int) -> None:
    question = a_question(gpus)
    model, hardware, lengths = question.model, question.hardware, question.lengths
    ways = table(model, hardware, lengths, gpus, question.batch, question.longest)
    best = np.inf
    for tp, replicas in product(TP_SIZES, range(1, gpus)):
        left = gpus - tp * replicas
        if left > 0:
            trained = ways.seconds[ways.fits & (ways.gpus <= left)].min(initial=np.inf)
            sampled = demand(lengths, an_engine(tp), question.batch).seconds(np.array([replicas]))[0]
            best = min(best, max(trained, sampled))
    found = a_plan(question)
    assert min(option.seconds for option in found.options) == pytest.approx(best)
    assert found.seconds <= best * NEARLY


def test_gpus_that_gain_nothing_are_left_free() -> None:
    found = a_plan(a_question(4096))
    assert found.free_gpus > 1000
    assert found.seconds == pytest.approx(a_plan(a_question(2048)).seconds, rel=0.02)


def test_the_last_hundredth_of_speed_is_not_worth_its_gpus() -> None:
    found = a_plan(a_question(512, batch=2048))
    (fastest,) = (option for option in found.options if option.tp in found.samplers)
    assert found.samplers[fastest.tp] < fastest.replicas
    assert fastest.seconds < found.seconds <= NEARLY * fastest.seconds


@pytest.mark.parametrize("gpus", [128, 1024])
def test_training_gets_room_where_gpus_allow_it(gpus: int) -> None:
    """Its efficiency is assumed: a fifth less than that, and the plan still holds."""
    found = a_plan(a_question(gpus))
    assert found.training.seconds * TRAINING_HEADROOM <= found.seconds


def test_short_trajectories_get_small_engines() -> None:
    """The published crossover: below 2K tokens eight engines of one GPU outrun one engine of eight."""
    assert set(a_plan(a_question(64, alike(np.linspace(20, 400, 200).tolist(), 100), batch=8192)).samplers) <= {1, 2}
    assert set(a_plan(a_question(64, alike(np.linspace(16_000, 32_000, 200).tolist(), 100))).samplers) == {8}


def test_what_was_pruned_is_counted_with_its_reason_and_the_best_of_it() -> None:
    found = a_plan(a_question(48, model="qwen2-5-7b"))
    reasons = {one.reason.split(":")[0].split(" of ")[0]: one for one in found.pruned}
    assert set(reasons) == {
        "TP does not divide the 28 attention heads or leaves the node",
        "DP x micro-batch does not divide the batch",
        "memory",
    }
    memory = reasons["memory"]
    assert memory.count > 0
    assert memory.best
    assert memory.best.memory_bytes > USABLE * 80e9
    assert found.left_out == ("TP8 leaves the node or does not divide 28 attention heads",)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (a_question(1), ("1 GPUs are too few", "training takes at least 4", "sampling at least 1")),
        (a_question(4), ("4 GPUs are too few",)),
        (replace(a_question(64), model=DEEP), ("no sampler fits", "TP8 cannot hold the weights of deep")),
        (replace(a_question(64, context=1_000_000), model=WIDE_KV), ("TP8 holds", "trajectory has 1,000,000")),
        (a_question(512, context=1_000_000), ("no parallelism trains", "1,000,000 tokens", "memory of a800-80g")),
    ],
    ids=["one GPU", "no GPU left", "too large to sample", "too long to sample", "too long to train"],
)
def test_where_there_is_no_plan_the_constraint_is_named(question: Question, words: tuple[str, ...]) -> None:
    found = plan(question)
    assert isinstance(found, Infeasible), found
    assert all(word in found.constraint for word in words), found.constraint


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"gpus": 0}, "gpus"),
        ({"gpus": -3}, "gpus"),
        ({"gpus": 100_000}, "gpus"),
        ({"batch": 0}, "batch"),
        ({"context": 10**9}, "context"),
        ({"context": 0}, "context"),
        ({"lengths": alike([2e6])}, "context"),
        ({"prediction_error": float("nan")}, "prediction error"),
        ({"prediction_error": -0.1}, "prediction error"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(given: dict[str, Any], field: str) -> None:
    found = plan(a_question(**given))
    assert isinstance(found, BadInput)
    assert found.field == field


def test_polish_keeps_a_plan_that_fits_and_simulates_its_time() -> None:
    question = a_question(24)
    found = polish(question, a_plan(question))
    assert found.sampler_gpus + found.training.gpus + found.free_gpus == 24
    assert found.training.memory_bytes <= USABLE * 80e9
    assert 0.8 < found.sampling_seconds / a_plan(question).sampling_seconds < 1.4
    assert polish(question, a_plan(question)).samplers == found.samplers


def test_training_memory_falls_with_every_way_to_shard() -> None:
    ways = table(a_model(), some_hardware(), some_lengths(), 64, 64, 40_960)

    def memory(tp: int, pp: int, dp: int) -> float:
        found = (ways.tp == tp) & (ways.pp == pp) & (ways.dp == dp) & (ways.micro_batch == 1)
        return float(ways.memory_bytes[found][0])

    assert memory(1, 1, 1) > memory(1, 1, 8) > memory(2, 1, 8) > memory(2, 4, 8)


def test_a_larger_micro_batch_only_lengthens_the_bubble() -> None:
    ways = table(a_model(), some_hardware(), some_lengths(), 16, 512, 16_384)

    def seconds(pp: int, dp: int, micro_batch: int) -> float:
        found = (ways.tp == 1) & (ways.pp == pp) & (ways.dp == dp) & (ways.micro_batch == micro_batch)
        return float(ways.seconds[found][0])

    assert seconds(1, 8, 8) == pytest.approx(seconds(1, 8, 1))
    assert seconds(8, 2, 8) > 1.1 * seconds(8, 2, 1)
