"""Whole comparisons on small jobs: searches, every policy, repeatability."""

import pytest

from steelyard.api import Allocation, Stage
from steelyard.twin.compare import POLICIES, _best, compare, play
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import SAMPLER
from steelyard.twin.policies import static
from steelyard.twin.policies.split import Units
from steelyard.twin.policies.static import hindsight, initial, uniform
from steelyard.twin.run import Static, run
from tests.unit.twin.small import small


def test_the_best_static_split_is_no_worse_than_those_next_to_it() -> None:
    short = small("steady", steps=4)
    found = initial(short, 1)
    reached = run(short, Static(), 1, found.allocation(short)).throughput
    for other in (Units(found.sampler - 2, found.reward, found.blocks + 1), uniform(short)):
        assert run(short, Static(), 1, other.allocation(short)).throughput <= reached


def test_the_search_climbs_from_a_poor_split_by_small_exchanges() -> None:
    short = small("steady", steps=4)
    poor = Units(2, 4, 4)
    near = [*static._neighbours(short, poor)]
    assert Units(2, 4, 4) not in near
    assert all(other.gpus(short) <= short.gpus and abs(other.blocks - poor.blocks) <= 1 for other in near)
    found = static._search(short, 1, [poor])
    fast, slow = (run(short, Static(), 1, of.allocation(short)).throughput for of in (found, poor))
    assert fast > slow


class Worse(Static):
    """Gives away all samplers but one."""

    interval_seconds = 60.0

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        return pipeline.allocation.replace(Stage.SAMPLER, {SAMPLER: 1})


def test_of_several_ways_to_configure_a_baseline_the_best_counts() -> None:
    short = small("steady", steps=4)
    best = _best(short, "keda", 1, [Worse(), Static(), Worse()])
    assert best.run.moves == 0
    assert len(best.run.changes) == 1


def test_hindsight_is_at_least_as_fast_over_the_run_as_the_split_for_the_start() -> None:
    short = small(gpus=16, steps=4)
    fast, slow = (run(short, Static(), 2, of(short, 2).allocation(short)).throughput for of in (hindsight, initial))
    assert fast >= slow


def test_every_policy_plays_the_whole_run_and_the_same_seed_gives_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(static, "MOST_SIMULATIONS", 2)
    short = small(gpus=16, steps=2)
    once = compare(short, 3)
    assert [one.policy for one in once] == list(POLICIES)
    assert all(len(one.run.step_ends) == short.steps for one in once)
    for name in ("steelyard", "hpa-occupancy", "oracle"):
        assert play(short, name, 3).run == once[list(POLICIES).index(name)].run
