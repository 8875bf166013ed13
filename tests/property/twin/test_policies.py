"""The baselines do what docs/decisions/0013 says they do."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import Stage
from steelyard.twin.compare import UnknownPolicy, play
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import best_split, job_of, truth
from steelyard.twin.policies.autoscaled import Scheduler
from steelyard.twin.policies.colocated import RESHARD_SECONDS, colocated
from steelyard.twin.policies.libra import ROLLOUT_FLOOR_GPUS, Libra
from steelyard.twin.policies.oracle import Oracle, promises
from steelyard.twin.policies.split import Units
from steelyard.twin.policies.static import initial, uniform
from steelyard.twin.profiles import profile
from steelyard.twin.run import Static, run
from tests.unit.twin.small import small


@pytest.mark.parametrize(
    ("gpus", "want"), [(48, Units(8, 16, 4)), (24, Units(4, 8, 2)), (26, Units(5, 8, 2)), (80, Units(14, 28, 3))]
)
def test_uniform_gives_every_stage_the_same_and_leaves_no_gpu(gpus: int, want: Units) -> None:
    assert uniform(profile("drift", gpus)) == want


def test_units_and_allocations_say_the_same() -> None:
    units, wide = Units(7, 5, 3), profile("drift")
    assert Units.of(wide, units.allocation(wide)) == units
    assert units.gpus(wide) == int(units.allocation(wide).gpus(job_of(wide).spec.gpu_prices))


@pytest.mark.parametrize("gpus", [26, 55])
def test_colocated_training_takes_all_gpus_however_many_those_are(gpus: int) -> None:
    """A trainer of as many GPUs is no multiple of its blocks."""
    short = small("steady", gpus=gpus, steps=2)
    done = colocated(short, 1)
    prices = job_of(replace(done.profile, gpus=3 * gpus), done.changes[0].allocation).spec.gpu_prices
    (trainer,) = done.changes[0].allocation[Stage.TRAINER]
    assert prices[Stage.TRAINER][trainer] == gpus
    assert len(done.step_ends) == 2


def test_colocated_training_never_overlaps_its_phases() -> None:
    short = small("steady", steps=3)
    done = colocated(short, 1)
    training = short.trainer.gpu_seconds * short.batch / short.trainer.speed(short.gpus) / 2
    gaps = [end - start for start, end in zip(done.step_ends, done.step_ends[1:], strict=False)]
    assert all(gap > 2 * RESHARD_SECONDS + training for gap in gaps)
    assert done.gpu_hours == pytest.approx(short.gpus * done.seconds / 3600)
    assert done.throughput < run(short, Static(), 1).throughput


@given(asks=st.lists(st.tuples(*[st.integers(1, 40)] * 3), min_size=1, max_size=8))
def test_pods_that_find_no_gpu_wait_and_the_budget_holds(asks: list[tuple[int, int, int]]) -> None:
    scheduler = Scheduler(profile("drift"), {Stage.SAMPLER: 8, Stage.REWARD_SERVER: 4, Stage.TRAINER: 7})
    for sampler, reward, blocks in asks:
        asked = {Stage.SAMPLER: sampler, Stage.REWARD_SERVER: reward, Stage.TRAINER: blocks}
        units = scheduler.schedule(asked)
        assert units.gpus(scheduler.profile) <= scheduler.profile.gpus
        assert {stage: scheduler.asked(stage) for stage in asked} == asked


def test_the_oldest_pending_pod_starts_first_and_pending_pods_go_first() -> None:
    scheduler = Scheduler(profile("drift", 12), {Stage.SAMPLER: 2, Stage.REWARD_SERVER: 4, Stage.TRAINER: 1})

    def ask(sampler: int, reward: int, blocks: int) -> Units:
        return scheduler.schedule({Stage.SAMPLER: sampler, Stage.REWARD_SERVER: reward, Stage.TRAINER: blocks})

    assert ask(3, 6, 1) == Units(2, 4, 1), "nothing is free"
    assert ask(3, 5, 1) == Units(2, 4, 1), "a pending judge is withdrawn before a running one"
    assert ask(3, 2, 1) == Units(3, 2, 1), "the sampler waited longest and gets what two judges held"


def a_libra(*, hybrid: bool = False) -> Libra:
    return Libra(profile("drift"), Units(8, 4, 7), hybrid=hybrid)


def test_libra_moves_gpus_to_rollout_when_lengths_grow_and_leaves_the_judges_alone() -> None:
    libra = a_libra()
    libra._plan(4.0, 50)
    assert libra._applied.sampler > 8
    assert libra._applied.reward == 4
    assert libra._applied.gpus(libra.profile) <= 48


def test_libra_rests_for_a_step_after_a_plan() -> None:
    libra, start = a_libra(), Units(8, 4, 7)
    seen = []
    for step in (140, 141, 142):
        libra._core = start  # as if the plan before had done nothing, so that there is always one to make
        libra.decide(SimpleNamespace(step=step))  # type: ignore[arg-type]
        seen.append(libra._applied != start)
    assert seen == [True, False, True]


def test_libra_refuses_what_one_iteration_does_not_pay() -> None:
    quick = replace(profile("drift"), prompts_per_step=1)
    libra = Libra(quick, Units(8, 4, 7))
    libra._plan(1.6, 50)
    assert libra._applied == Units(8, 4, 7), "an iteration of seconds can never save fifteen"


def test_libras_hybrid_units_join_all_at_once_above_the_floor_and_leave_all_at_once() -> None:
    libra = a_libra(hybrid=True)
    libra._join(1.2)
    assert libra._applied == Units(6, 4, 8), "the largest trainer binds before the floor does"
    libra._join(1.0)
    assert libra._applied.blocks == 8, "between the thresholds nothing changes"
    libra._join(0.9)
    assert libra._applied == Units(8, 4, 7)
    assert ROLLOUT_FLOOR_GPUS <= 2 * 6


def test_the_oracle_stays_where_the_true_model_finds_nothing_better() -> None:
    wide = profile("steady")
    best = max(promises(wide, 0), key=lambda units: promises(wide, 0)[units])
    pipeline = Pipeline(wide, best.allocation(wide), 1)
    assert Oracle(wide, best, 0.01).decide(pipeline) is None


def test_the_oracle_goes_to_the_best_split_when_it_pays() -> None:
    wide = profile("steady")
    poor = Units(2, 4, 8)
    decided = Oracle(wide, poor, 0.01).decide(Pipeline(wide, poor.allocation(wide), 1))
    assert decided is not None
    reached, best = (truth(wide, 0).promise(one).throughput for one in (decided, best_split(wide)))
    assert reached == pytest.approx(best, rel=0.002)


def test_the_oracle_stays_where_too_little_of_the_run_is_left_to_pay_for_the_move() -> None:
    wide = profile("steady")
    best = Units.of(wide, best_split(wide))
    nearly = replace(best, sampler=best.sampler - 1)
    moves = [Oracle(wide, nearly, 0.01).decide(SimpleNamespace(step=step)) for step in (0, wide.steps - 1)]  # type: ignore[arg-type]
    assert [move is not None for move in moves] == [True, False]


def test_the_operator_starts_from_the_split_of_static_initial() -> None:
    short = small(gpus=16, steps=2)
    start = initial(short, 1).allocation(short)
    assert play(short, "steelyard", 1).run.changes[0].allocation == start


def test_a_policy_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(UnknownPolicy, match=r"'best'.*static-initial"):
        play(small(), "best", 1)
