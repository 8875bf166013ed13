"""What a job may expect of its model and GPUs before they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, get_args

import pytest

from steelyard.api import AgenticRLJobSpec, Allocation, Planning, Stage
from steelyard.balance import balance
from steelyard.balance.coldstart import hardware_names, model_names
from steelyard.balance.estimate import estimate
from steelyard.balance.known import PRIOR_ERROR
from steelyard.balance.observe import observe
from steelyard.balance.priors import speeds, start
from steelyard.balance.types import Rates, Seen
from tests.builders import a_job
from tests.unit.balance.builders import NOW, a_view, steady
from tests.unit.balance.loop import demo_job

ROWS = {"model": "qwen3-14b", "hardware": "a800-80g"}
LENGTHS = {**ROWS, "promptTokens": 1400, "outputTokens": 9600}
SAMPLER = "stages.sampler"


def a_profile(gpus: int, **others: Any) -> dict[str, Any]:
    return {"name": f"tp{gpus}", "resources": {"nvidia.com/gpu": gpus}, "gpus": gpus, **others}


def a_spec(changes: Mapping[str, Any] | None = None) -> AgenticRLJobSpec:
    """48 GPUs: samplers of eight or one, a trainer of eight, batch 512."""
    base = {
        "budget.gpus": 48,
        "algorithm": {"groupSize": 8, "promptsPerStep": 64},
        f"{SAMPLER}.gpuProfiles": [a_profile(8), a_profile(1)],
        f"{SAMPLER}.replicas": {"min": 1, "max": 20},
        "stages.rewardServer.gpuProfiles": [],
        "stages.trainer.gpuProfiles": [a_profile(8)],
        "planning": LENGTHS,
    }
    return a_job({**base, **(changes or {})}).spec


def test_the_api_names_the_rows_that_there_are() -> None:
    fields = Planning.model_fields
    assert list(get_args(fields["model"].annotation)) == model_names()
    assert list(get_args(fields["hardware"].annotation)) == hardware_names()


@pytest.mark.parametrize(("tokens", "least", "most"), [(500, 1.0, 3.0), (24_000, 15.0, 30.0)])
def test_a_large_engine_is_worth_its_gpus_on_long_trajectories_only(tokens: float, least: float, most: float) -> None:
    """Published: eight TP1 against one TP8 make 1,852 against 591 tokens/s on short, 430 against 1,220 on long."""
    expected = speeds(Stage.SAMPLER, a_spec(), tokens)
    assert least < expected["tp8"] / expected["tp1"] < most


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("no rows are named", {"planning": None}),
        ("the user expects something", {f"{SAMPLER}.gpuProfiles": [a_profile(8, speedPercent=600), a_profile(1)]}),
        ("a profile is no size of an engine", {f"{SAMPLER}.gpuProfiles": [a_profile(8), a_profile(3)]}),
    ],
)
def test_the_users_speeds_stay(why: str, changes: dict[str, Any]) -> None:
    spec = a_spec(changes)
    told = {profile.name: float(profile.speed_percent) for profile in spec.stages.sampler.gpu_profiles}
    assert speeds(Stage.SAMPLER, spec, 9000) == told


def test_other_stages_keep_the_users_speeds() -> None:
    assert speeds(Stage.TRAINER, a_spec(), 9000) == {"tp8": 100.0}


def samplers(changes: Mapping[str, Any] | None = None) -> Mapping[str, int]:
    return start(a_spec(changes))[Stage.SAMPLER]


@pytest.mark.parametrize(
    ("why", "changes", "expected"),
    [
        ("as many as keep up with the trainer", {}, {"tp8": 5}),
        ("no more than the budget holds", {"budget.gpus": 30}, {"tp8": 2}),
        ("no more than max", {f"{SAMPLER}.replicas": {"min": 1, "max": 3}}, {"tp8": 3}),
        ("no more than the trainer can take", {"budget.gpus": 400}, {"tp8": 11}),
        ("no fewer than min", {f"{SAMPLER}.replicas": {"min": 12, "max": 20}, "budget.gpus": 400}, {"tp8": 12}),
        ("the user's number stays", {f"{SAMPLER}.replicas": {"min": 1, "max": 20, "initial": 2}}, {"tp8": 2}),
        ("no lengths, no plan", {"planning": ROWS}, {"tp8": 1}),
        ("no rows, no plan", {"planning": None}, {"tp8": 1}),
        ("a trainer that the model does not fit", {"stages.trainer.gpuProfiles": [a_profile(1)]}, {"tp8": 1}),
        ("mode Fixed", {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"tp1": 7}}}}, {"tp1": 7}),
        ("lengths beyond reason", {"planning": {**ROWS, "outputTokens": 1_000_000}}, {"tp8": 1}),
    ],
)
def test_the_samplers_that_a_job_starts_with(why: str, changes: dict[str, Any], expected: dict[str, int]) -> None:
    assert samplers(changes) == expected


def test_everything_else_starts_as_the_spec_says() -> None:
    spec = a_spec()
    assert start(spec).replace(Stage.SAMPLER, {}) == spec.initial_allocation.replace(Stage.SAMPLER, {})
    assert start(spec).gpus(spec.gpu_prices) == Fraction(48)


def test_the_first_revision_holds_the_planned_start() -> None:
    job = a_job({"planning": LENGTHS}).model_copy(update={"spec": a_spec()})
    plan = balance(Seen(job), Rates(), 0.0)
    assert plan.revision
    allocation: Allocation = plan.revision.spec.allocation.after
    assert allocation[Stage.SAMPLER] == {"tp8": 5}


def test_a_size_never_tried_is_expected_at_the_planned_ratio_of_the_measured_one() -> None:
    """Without rows, eight GPUs in one engine would be expected to be as fast as one."""
    for planning, low, high in ((None, 1.0, 1.0), (ROWS, 15.0, 30.0)):
        job = demo_job(
            {
                "budget.gpus": 24,
                f"{SAMPLER}.gpuProfiles": [a_profile(1, name="whole"), a_profile(8)],
                "planning": planning,
            }
        )
        model = estimate(observe(a_view(job), steady(tokens=24_000).rates(), NOW), job.spec).model
        assert model
        rates = model.capacities.rates[Stage.SAMPLER]
        assert low <= rates["tp8"].value / rates["whole"].value <= high
        assert rates["tp8"].error > PRIOR_ERROR
