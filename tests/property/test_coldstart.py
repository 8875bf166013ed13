"""The cold-start planner on generated questions, and its exact part against mixed-integer programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.coldstart import (
    BadInput,
    Infeasible,
    Lengths,
    Plan,
    Question,
    hardware_names,
    lognormal,
    model_names,
    parse,
    plan,
)
from steelyard.balance.coldstart.aware import Classes, classes, mixed
from steelyard.balance.coldstart.rollout import USABLE
from tests.milp import feasible
from tests.property.effort import costly, dear
from tests.unit.coldstart.builders import a_model, engines, some_hardware, some_lengths

CASES, SHORT_CASES, WHOLE_CASES = 1000, 100, 100
WITHIN, SHORT_WITHIN, MOST_EXTRA = 1e-3, 5e-3, 2


@st.composite
def questions(draw: st.DrawFn) -> Question:
    count = draw(st.integers(1, 40))
    tokens = st.floats(1, 200_000) | st.floats(1, 500) | st.just(1.0)
    return Question(
        a_model(draw(st.sampled_from(model_names()))),
        some_hardware(draw(st.sampled_from(hardware_names()))),
        Lengths(*(np.array(draw(st.lists(tokens, min_size=count, max_size=count))) for _ in range(2))),
        draw(st.integers(-1, 130) | st.sampled_from([1024, 4096, 10**9])),
        draw(st.integers(0, 600) | st.sampled_from([4096, 10**7])),
        draw(st.none() | st.integers(-5, 10**7)),
        draw(st.none() | st.floats()),
    )


@dear
@given(questions())
def test_any_question_has_an_answer_and_every_plan_fits(question: Question) -> None:
    found = plan(question)
    if not isinstance(found, Plan):
        assert isinstance(found, Infeasible | BadInput)
        assert str(found)
        return
    limit = USABLE * question.hardware.hbm_bytes
    assert 0 < found.seconds < np.inf
    assert found.training.memory_bytes <= limit
    assert found.sampler_memory_bytes <= limit
    assert all(one.kv_tokens >= question.longest for one in found.engines.values())
    assert found.free_gpus >= 0
    assert found.sampler_gpus + found.training.gpus + found.free_gpus == question.gpus
    assert question.batch % (found.training.dp * found.training.micro_batch) == 0
    assert found.seconds <= 1.011 * min(option.seconds for option in found.options)


@dear
@given(st.integers(5, 300), st.integers(0, 5))
def test_one_more_gpu_never_makes_the_plan_slower(gpus: int, seed: int) -> None:
    fewer, more = (plan(Question(a_model(), some_hardware(), some_lengths(64, seed=seed), n)) for n in (gpus, gpus + 1))
    assert isinstance(fewer, Plan)
    assert isinstance(more, Plan)
    best = [min(option.seconds for option in one.options) for one in (fewer, more)]
    assert best[1] <= best[0] * (1 + 1e-9)


@costly
@given(st.lists(st.text() | st.from_regex(r"\[[0-9.e-]{0,9}, ?[0-9.e-]{0,9}\]"), max_size=6))
def test_any_text_is_lengths_or_a_refusal_that_names_the_row(lines: list[str]) -> None:
    found = parse(lines)
    if isinstance(found, Lengths):
        assert np.isfinite(found.total).all()
        assert (found.total > 0).all()
    else:
        assert found.field.startswith("requests")


@costly
@given(st.floats(), st.floats(), st.floats(), st.floats())
def test_any_distribution_is_lengths_or_a_refusal(prompt: float, output: float, sigma: float, context: float) -> None:
    found = lognormal(prompt, output, sigma, context)
    if isinstance(found, Lengths):
        assert (found.generated >= 1).all()
        assert (found.total <= context).all()


def a_case(seed: int, mean: float) -> tuple[Classes, int]:
    drawn = np.random.default_rng(seed)
    requests, gpus = int(drawn.integers(4, 25)), int(drawn.integers(1, 17))
    return classes(some_lengths(requests, mean, seed), engines(), requests), gpus


def best_seconds(of: Classes, gpus: int) -> tuple[float, dict[int, int]]:
    found = mixed(of, np.array([np.inf, *[1e-3] * (gpus + 1)]), gpus + 1)
    assert found
    return found.seconds, dict(found.samplers)


@pytest.mark.parametrize(("mean", "cases", "within"), [(800, SHORT_CASES, SHORT_WITHIN), (10_000, CASES, WITHIN)])
def test_no_assignment_is_faster(mean: float, cases: int, within: float) -> None:
    for seed in range(cases):
        of, gpus = a_case(seed, mean)
        seconds, samplers = best_seconds(of, gpus)
        assert feasible(of, seconds * (1 + 1e-7), gpus, counts=samplers), f"seed {seed}"
        assert not feasible(of, seconds * (1 - within), gpus), f"seed {seed}: a faster assignment exists"


def test_whole_trajectories_cost_at_most_two_gpus_more() -> None:
    for seed in range(WHOLE_CASES):
        of, gpus = a_case(seed, 10_000)
        seconds, _ = best_seconds(of, gpus)
        assert feasible(of, seconds * (1 + 1e-7), gpus + MOST_EXTRA, whole=True), f"seed {seed}"
