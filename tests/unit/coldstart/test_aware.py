"""The exact planner of mixed layouts against mixed-integer programs over every assignment."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.balance.coldstart.aware import Frontier, Mixed, classes, mixed
from tests.milp import feasible
from tests.unit.coldstart.builders import engines, some_lengths

CASES = 50
TOLERANCE = 1e-3


@pytest.mark.parametrize("seed", range(CASES))
def test_no_assignment_of_divisible_trajectories_is_faster(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    requests, gpus, mean = int(drawn.integers(4, 13)), int(drawn.integers(1, 17)), float(drawn.choice([3000, 10_000]))
    of = classes(some_lengths(requests, mean, seed), engines(), requests)
    best = mixed(of, training_takes_one_gpu(gpus), gpus + 1)
    assert best is not None
    assert feasible(of, best.seconds * (1 + 1e-7), gpus, counts=dict(best.samplers))
    assert not feasible(of, best.seconds * (1 - TOLERANCE), gpus)


def training_takes_one_gpu(sampling: int) -> np.ndarray:
    """An envelope that leaves `sampling` GPUs to the samplers at any time."""
    return np.array([np.inf, *[1e-3] * (sampling + 1)])


def test_more_time_never_needs_more_gpus() -> None:
    frontier = Frontier(classes(some_lengths(), engines(), 512))
    needs = [frontier.fewest(seconds, 4096) for seconds in np.geomspace(380, 20_000, 12)]
    gpus = [sum(tp * count for tp, count in need.items()) for need in needs if need]
    assert len(gpus) == len(needs)
    assert gpus == sorted(gpus, reverse=True)
    assert gpus[0] > gpus[-1]


def test_the_bound_never_exceeds_what_is_needed() -> None:
    frontier = Frontier(classes(some_lengths(), engines(), 512))
    for seconds in np.geomspace(400, 20_000, 8):
        need = frontier.fewest(seconds, 4096)
        assert need
        assert frontier.bound(seconds)[0] <= sum(tp * count for tp, count in need.items()) + 1e-9


def test_faster_than_the_longest_trajectory_is_impossible() -> None:
    of = classes(some_lengths(), engines(), 512)
    assert Frontier(of).fewest(0.99 * float(of.step[0] * of.longest[0]), 16_384) is None


def test_the_longest_trajectory_goes_to_the_largest_engines() -> None:
    of = classes(some_lengths(), engines(), 512)
    found = mixed(of, training_takes_one_gpu(47), 48)
    assert isinstance(found, Mixed)
    assert max(found.samplers) == 8
    assert len(found.samplers) > 1
