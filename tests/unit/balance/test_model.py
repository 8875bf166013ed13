"""What the model promises, against figures computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import Allocation, Stage
from steelyard.balance.closed_loop import TokenLatency, closed_loop
from steelyard.balance.model import SERVING, Bounds, Capacities, Estimate, Model, Workload
from tests.unit.balance.builders import START

LATENCY = TokenLatency(alpha=0.02, beta=0.002, most=64)


def a_model(**changes: object) -> Model:
    """8 slots a replica, 40 tokens and 4 s of tools an episode, a judge of 0.25 s, 4 s for a step of 32."""
    model = Model(
        Workload(
            tokens=40,
            outside_seconds=4.0,
            visits={Stage.ENVIRONMENT: 1.0, Stage.REWARD_SERVER: 1.0, Stage.TRAINER: 1.0},
        ),
        Capacities(
            rates={
                Stage.SAMPLER: {"whole": Estimate(LATENCY.capacity)},
                Stage.REWARD_SERVER: {"whole": Estimate(4.0), "slice": Estimate(2.0)},
                Stage.TRAINER: {"whole": Estimate(8.0)},
            },
            latency={"whole": LATENCY},
            slots=8,
        ),
        Bounds(batch=32, open=96),
    )
    return replace(model, **changes)  # type: ignore[arg-type]


def test_capacity_of_a_batching_sampler_is_its_full_batch_over_its_latency_there() -> None:
    assert LATENCY.capacity == pytest.approx(64 / (0.02 + 0.002 * 64))  # 432 tokens/s, not 64 times one sequence


def test_the_closed_loop_solves_its_equation() -> None:
    """N = n·b·(1 + Z/(L·tau(b))), with the b that follows from X = n·b/(L·tau(b))."""
    episodes = float(closed_loop(open_=16, replicas=2.0, tokens=40, outside=4.0, latency=LATENCY))
    b = episodes * 40 * LATENCY.alpha / (2 - episodes * 40 * LATENCY.beta)
    assert 2 * b * (1 + 4.0 / (40 * LATENCY.at(b))) == pytest.approx(16)


def test_without_batching_cost_the_loop_is_littles_law() -> None:
    flat = replace(LATENCY, beta=0.0)
    assert closed_loop(16, 2.0, 40, 4.0, flat) == pytest.approx(16 / (4.0 + 40 * 0.02))  # N/(Z + R)


def test_sequences_beyond_what_the_replica_can_run_wait() -> None:
    assert closed_loop(10_000, 1.0, 40, 0.1, LATENCY) == pytest.approx(LATENCY.capacity / 40)


@pytest.mark.parametrize(("open_", "replicas", "why"), [(0, 1.0, "no episode"), (5, 0.0, "no sampler")])
def test_an_empty_loop_runs_nothing(open_: float, replicas: float, why: str) -> None:
    assert closed_loop(open_, replicas, 40, 4.0, LATENCY) == 0.0, why


def test_episodes_and_admission_agree_on_one_throughput() -> None:
    """What is trained leaves fewer slots open, and with those slots exactly so much is trained."""
    model = a_model(capacities=replace(a_model().capacities, trainer_seconds=0.2), bounds=Bounds(batch=32, open=64))
    throughput = model.episodes({"whole": 2}, 100, 50.0)
    assert model.loop({"whole": 2}, model.useful_slots(throughput)) == pytest.approx(throughput)
    assert 16 < model.useful_slots(throughput) < 48


@pytest.mark.parametrize("stage", [Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER])
@pytest.mark.parametrize("known", [["whole", "slice"], ["whole"], []], ids=["all", "one", "none"])
def test_a_curve_is_the_rate_at_each_number_of_replicas(stage: Stage, known: list[str]) -> None:
    """Of all profiles at once, whether or not their token latency is known."""
    slower = TokenLatency(alpha=0.03, beta=0.01, most=16)
    capacities = replace(
        a_model().capacities,
        rates={of: {"whole": Estimate(300), "slice": Estimate(100)} for of in SERVING},
        latency={name: one for name, one in {"whole": LATENCY, "slice": slower}.items() if name in known},
    )
    model = a_model(catching_up={Stage.REWARD_SERVER: 6.0}, capacities=capacities)
    ranges = {"whole": range(1, 9), "slice": range(2, 5)}
    curves = model.rates(stage, ranges, slots=24)
    for profile, replicas in ranges.items():
        alone = [model.rate(stage, {profile: n}) for n in replicas]
        if stage is Stage.SAMPLER:
            alone = [model.episodes({profile: n}, 24, rate) for n, rate in zip(replicas, alone, strict=True)]
        assert curves[profile].tolist() == pytest.approx(alone, rel=1e-12)


def test_no_profile_has_no_curve() -> None:
    assert a_model().rates(Stage.SAMPLER, {}, slots=24) == {}


def test_one_environment_replica_with_a_slow_tool_binds() -> None:
    promise = a_model().promise(START)
    assert promise.binding is Stage.ENVIRONMENT
    assert promise.throughput == pytest.approx(8 / (4.0 + 40 * 0.0208), rel=0.01)  # about one sequence runs


def test_with_enough_slots_the_judge_binds() -> None:
    promise = a_model().promise(START.replace(Stage.ENVIRONMENT, {"default": 4}))
    assert promise.binding is Stage.REWARD_SERVER
    assert promise.throughput == pytest.approx(4.0)


def test_two_ranks_give_a_little_less_than_twice_the_rate() -> None:
    assert a_model().rate(Stage.TRAINER, {"whole": 2}) == pytest.approx(8 * 2**0.9)


def test_profiles_of_one_stage_add_up() -> None:
    assert a_model().rate(Stage.REWARD_SERVER, {"whole": 1, "slice": 2}) == pytest.approx(4 + 2 * 2)


def test_visits_divide_what_a_stage_carries() -> None:
    """Every fourth trajectory is thrown away after it was scored, so four must be scored for three that are trained."""
    workload = replace(a_model().workload, visits={Stage.REWARD_SERVER: 4 / 3})
    assert a_model(workload=workload).rate(Stage.REWARD_SERVER, {"whole": 1}) == pytest.approx(3.0)


def test_a_backlog_takes_its_part_of_the_rate() -> None:
    model = a_model(catching_up={Stage.REWARD_SERVER: 0.5})
    assert model.rate(Stage.REWARD_SERVER, {"whole": 1}) == pytest.approx(3.5)


def test_weight_sync_is_lost_capacity_not_masked_time() -> None:
    """Capacity C; at T a version comes T/32 times a second and costs 1.6 s: T = C·(1 - T·1.6/32)."""
    model = a_model(capacities=replace(a_model().capacities, sync_seconds=1.6))
    raw = LATENCY.capacity / 40
    carried = model.rate(Stage.SAMPLER, {"whole": 1})
    assert carried == pytest.approx(raw * (1 - carried * 1.6 / 32))


def test_slots_beyond_what_admission_leaves_open_are_useless() -> None:
    """maxStaleness 0: 32 open, 16 of them being collected on average, so twice the slots add nothing."""
    model = a_model(bounds=Bounds(batch=32, open=32))
    some, more = (START.replace(Stage.ENVIRONMENT, {"default": n}) for n in (2, 4))
    assert model.promise(more).throughput == pytest.approx(model.promise(some).throughput)


def test_trajectories_in_training_are_not_open_for_the_environment() -> None:
    model = a_model(capacities=replace(a_model().capacities, trainer_seconds=0.125))
    assert model.useful_slots(4.0) == pytest.approx(96 - 16 - 32 * 0.5)


def test_an_unidentified_sampler_keeps_its_measured_wait() -> None:
    capacities = replace(a_model().capacities, latency={})
    model = a_model(capacities=capacities, workload=replace(a_model().workload, waiting_seconds=1.0))
    assert model.loop({"whole": 2}, 8) == pytest.approx(8 / (4.0 + 1.0))


def test_a_loop_bound_by_token_latency_blames_the_sampler() -> None:
    slow = TokenLatency(alpha=0.1, beta=0.1, most=64)
    capacities = replace(
        a_model().capacities,
        latency={"whole": slow},
        rates={**a_model().capacities.rates, Stage.SAMPLER: {"whole": Estimate(slow.capacity)}},
    )
    busy = a_model(capacities=capacities, workload=replace(a_model().workload, outside_seconds=0.1))
    assert busy.promise(START.replace(Stage.ENVIRONMENT, {"default": 4})).binding is Stage.SAMPLER


def test_no_replicas_promise_nothing() -> None:
    assert a_model().promise(Allocation()).throughput == 0.0
