"""What is proposed within budget, quota and bounds, and what a replica takes of a quota."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from steelyard.api import AgenticRLJobSpec, Allocation, RevisionPhase, Stage
from steelyard.balance import balance
from steelyard.balance.allocate import Infeasible
from steelyard.balance.bounds import StageBounds, spec_bounds
from steelyard.balance.model import Estimate, Model
from steelyard.balance.propose import Candidate, better_split, more_slots, unbounded_gain
from steelyard.balance.purse import purse_of, requests
from tests.builders import WHOLE, a_revision
from tests.unit.balance.builders import NOW, START, a_view, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_gate import time
from tests.unit.balance.test_model import a_model

FOUR_CORES = {"spec": {"containers": [{"name": "worker", "resources": {"requests": {"cpu": "4", "memory": "8Gi"}}}]}}


def a_spec(**changes: Any) -> AgenticRLJobSpec:
    return demo_job({path.replace("__", "."): value for path, value in changes.items()}).spec


def slow_judge() -> Model:
    """Enough samplers, a judge that carries 2 a second: one more would help."""
    model = a_model()
    rates = {**model.capacities.rates, Stage.REWARD_SERVER: {"whole": Estimate(1.0)}}
    return replace(model, capacities=replace(model.capacities, rates=rates))


def test_a_gpu_moves_to_the_stage_that_binds() -> None:
    spec = a_spec()
    candidate = better_split(slow_judge(), spec, START, spec_bounds(spec))
    assert isinstance(candidate, Candidate)
    assert candidate.after[Stage.REWARD_SERVER] == {"whole": 2}
    assert candidate.new.throughput > candidate.old.throughput


@pytest.mark.parametrize(
    ("quota", "environments", "why"),
    [
        ({}, 4, "an unknown quota bounds nothing"),
        ({"cpu": Fraction(12)}, 3, "four cores a replica"),
        ({"cpu": Fraction(12), "memory": Fraction(16 * 2**30)}, 2, "memory is scarcer still"),
        ({"pods": Fraction(0)}, 4, "nothing that a container requests"),
    ],
)
def test_more_episodes_stay_within_the_quota(quota: dict[str, Fraction], environments: int, why: str) -> None:
    spec = a_spec(stages__environment__template=FOUR_CORES)
    candidate = more_slots(a_model(), spec, START, spec_bounds(spec), quota)
    assert candidate is not None
    assert candidate.after.replicas(Stage.ENVIRONMENT) == environments, why


def test_a_quota_without_room_for_one_more_proposes_nothing() -> None:
    spec = a_spec(stages__environment__template=FOUR_CORES)
    assert more_slots(a_model(), spec, START, spec_bounds(spec), {"cpu": Fraction(7)}) is None


def test_a_split_that_the_quota_cannot_hold_is_not_proposed() -> None:
    """The judges need eight cores each; the quota has room for one judge."""
    judge = {"spec": {"containers": [{"name": "worker", "resources": {"requests": {"cpu": 8}}}]}}
    spec = a_spec(stages__rewardServer__template=judge)
    assert better_split(slow_judge(), spec, START, spec_bounds(spec), {"cpu": Fraction(15)}) is None
    assert better_split(slow_judge(), spec, START, spec_bounds(spec), {"cpu": Fraction(16)}) is not None


@pytest.mark.parametrize(("cores", "moves"), [(16, True), (7, False)])
def test_a_tick_knows_the_quota_of_the_namespace(cores: int, moves: bool) -> None:
    job = demo_job({"stages.environment.template": FOUR_CORES})
    first = a_revision(1, START, phase=RevisionPhase.JUDGED, status={"measuring_time": time(NOW - 115)})
    seen = replace(a_view(job, (first,)), quota={"cpu": Fraction(cores)})
    assert (balance(seen, steady().rates(), NOW).revision is not None) is moves


def test_a_quota_below_the_smallest_allocation_is_named() -> None:
    spec = a_spec(stages__trainer__template=FOUR_CORES)
    got = better_split(a_model(), spec, START, spec_bounds(spec), {"memory": Fraction(6 * 2**30)})
    assert isinstance(got, Infeasible)
    assert "takes 8 GiB of memory of a budget of 6, 2 too many; trainer takes at least 8" in got.constraint


def test_an_environment_that_outgrew_its_quota_is_named() -> None:
    """Somebody lowered the quota, and the others have to do with less than nothing."""
    spec = a_spec(stages__environment__template=FOUR_CORES)
    got = better_split(a_model(), spec, START, spec_bounds(spec), {"cpu": Fraction(3)})
    assert isinstance(got, Infeasible)
    assert "takes 4 CPUs of a budget of 3, 1 too many; environment takes at least 4" in got.constraint


def test_a_stage_that_may_have_no_replica_gets_an_answer() -> None:
    spec = a_spec()
    bounds = {**spec_bounds(spec), Stage.REWARD_SERVER: StageBounds(0, 0)}
    assert better_split(a_model(), spec, Allocation(), bounds) is None
    assert unbounded_gain(a_model(), spec, Allocation()) == 0.0


def test_profiles_in_thousandths_of_a_gpu_add_up_exactly() -> None:
    """Ten tenths fit one GPU beside the others; in floats they would not."""
    tenth = {"name": "tenth", "resources": {"nvidia.com/gpu.shared": 1}, "gpus": "100m"}
    spec = a_spec(
        budget__gpus=3,
        stages__rewardServer__gpuProfiles=[tenth],
        stages__rewardServer__replicas={"min": 1, "max": 20},
        stages__sampler__replicas={"min": 1, "max": 1},
    )
    model = a_model()
    rates = {**model.capacities.rates, Stage.REWARD_SERVER: {"tenth": Estimate(0.1)}}
    model = replace(model, capacities=replace(model.capacities, rates=rates, slots=64))
    current = START.replace(Stage.SAMPLER, {"whole": 1}).replace(Stage.REWARD_SERVER, {"tenth": 1})
    candidate = better_split(model, spec, current, spec_bounds(spec))
    assert isinstance(candidate, Candidate)
    assert candidate.after[Stage.REWARD_SERVER] == {"tenth": 10}


def test_amounts_of_very_different_size_stay_whole_numbers() -> None:
    spec = a_spec(stages__environment__template=FOUR_CORES)
    purse = purse_of(spec, {"memory": Fraction(10**33), "cpu": Fraction(1, 10**9)})
    assert all(abs(one.budget) < 2**51 for one in purse.resources)
    assert purse.affords(Stage.ENVIRONMENT, "default", 9) == 0


CONTAINERS: dict[str, tuple[list[Any], list[Any], dict[str, int]]] = {
    "the profile alone": ([], [], {"nvidia.com/gpu": 1}),
    "requests of the worker": (
        [{"name": "worker", "resources": {"requests": {"cpu": 2, "nvidia.com/gpu": 3}}}],
        [],
        {"cpu": 2, "nvidia.com/gpu": 3},
    ),
    "a limit is also the request": (
        [{"name": "worker", "resources": {"limits": {"cpu": "3"}}}],
        [],
        {"cpu": 3, "nvidia.com/gpu": 1},
    ),
    "a sidecar adds to it": (
        [
            {"name": "worker", "resources": {"requests": {"cpu": 2}}},
            {"name": "proxy", "resources": {"requests": {"cpu": 1}}},
        ],
        [],
        {"cpu": 3, "nvidia.com/gpu": 1},
    ),
    "of an init container only what it needs more": (
        [{"name": "worker", "resources": {"requests": {"cpu": 2}}}],
        [{"name": "fetch", "resources": {"requests": {"cpu": 5, "memory": 7}}}],
        {"cpu": 5, "memory": 7, "nvidia.com/gpu": 1},
    ),
    "what cannot be read": (
        ["x", {"name": "worker", "resources": {"requests": {"cpu": "much", "memory": None}}}, {"resources": 3}],
        [],
        {"nvidia.com/gpu": 1},
    ),
}


@pytest.mark.parametrize("case", CONTAINERS)
def test_what_a_replica_takes_of_a_quota(case: str) -> None:
    containers, first, want = CONTAINERS[case]
    template = {"spec": {"containers": containers, "initContainers": first}}
    spec = a_spec(stages__sampler__gpuProfiles=[WHOLE], stages__sampler__template=template)
    assert requests(spec.stage(Stage.SAMPLER)) == {"whole": want}
