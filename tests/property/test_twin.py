"""The digital twin at length: published scaling, saturation, and the balance in the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import Stage, Verdict
from steelyard.twin.jobs import SAMPLER, demand, split, truth
from steelyard.twin.profiles import Spread, profile
from steelyard.twin.run import Static, Steelyard, run
from tests.unit.twin.builders import a_profile, finished, flow_only


def test_a_saturated_sampler_reaches_b_over_tau_of_b() -> None:
    """Sequences of equal length, so that the batch is always as full as the KV cache or the slots allow."""
    for kv_tokens, most in ((40_000, 48), (10**9, 20)):
        engine = replace(profile("steady").sampler, kv_tokens=kv_tokens, max_num_seqs=most)
        setup = flow_only(
            steps=30, prompts_per_step=16, environments=18, sampler=engine, trajectory_sigma=0.0, failed_share=0.0
        )
        setup = replace(setup, turns=Spread(1), turn_tokens=2500.0)
        pipeline = finished(setup, split(setup, 1, 1, 4))
        meter = pipeline.meters()[Stage.SAMPLER]
        batch = meter.busy_seconds / meter.duty_seconds
        ends = pipeline.step_ends
        tokens = 20 * setup.batch * setup.mean_tokens / (ends[-1] - ends[9])
        assert tokens == pytest.approx(batch / (engine.alpha + engine.beta * batch), rel=0.03)
        assert batch == pytest.approx(min(most, kv_tokens // demand(setup, 0).live_tokens), rel=0.02)


def test_rollout_work_grows_with_length_as_published() -> None:
    """GPU seconds of a saturated sampler for a trajectory of 2.5K and of 11.5K tokens: the exponent 1.31 is nobody's
    input, it follows from token latency and KV limit (docs/decisions/0012)."""
    costs = []
    drift = profile("drift")
    for step in (0, drift.steps - 1):
        setup = flow_only(
            steps=24, prompts_per_step=16, environments=18, turn_tokens=drift.turn_tokens * drift.factor(step)
        )
        pipeline = finished(setup, split(setup, 1, 1, 4))
        ends = pipeline.step_ends
        costs.append((ends[-1] - ends[5]) / (18 * setup.batch))
        assert demand(drift, step).tokens == pytest.approx(2500 if step == 0 else 11_500, rel=0.03)
    assert costs[1] / costs[0] == pytest.approx((11.5 / 2.5) ** 1.31, rel=0.03)


def test_the_true_model_knows_what_a_saturated_sampler_does() -> None:
    """Within what docs/decisions/0012 says, at the lengths of the end of `drift`."""
    long = profile("drift").turn_tokens * profile("drift").factor(149)
    setup = flow_only(steps=60, prompts_per_step=16, environments=18, turn_tokens=long, failed_share=0.0)
    pipeline = finished(setup, split(setup, 1, 1, 4))
    ends = pipeline.step_ends
    reached = 40 * setup.batch * setup.mean_tokens / (ends[-1] - ends[19])
    assert 0 <= reached / truth(setup, 0).capacities.latency[SAMPLER].capacity - 1 < 0.1


def test_busy_time_is_units_times_service_demand() -> None:
    """The utilisation law, reward servers and trainer."""
    setup = a_profile(steps=40, prompts_per_step=16, environments=18)
    pipeline, asked = finished(setup), demand(setup, 0)
    judges, trainer = (pipeline.meters()[stage] for stage in (Stage.REWARD_SERVER, Stage.TRAINER))
    scored = pipeline.trained + pipeline.failed + judges.serving + pipeline.meters()[Stage.TRAINER].queue
    assert judges.busy_seconds == pytest.approx(scored * asked.judge_seconds, rel=0.03)
    size = float(pipeline.allocation.gpus(pipeline.job.spec.gpu_prices)) - 2 * pipeline.allocation.replicas(
        Stage.SAMPLER
    )
    speed = setup.trainer.speed(round(size - pipeline.allocation.replicas(Stage.REWARD_SERVER)))
    work = pipeline.trained * asked.train_gpu_seconds / speed + 40 * setup.trainer.step_seconds
    assert trainer.busy_seconds == pytest.approx(work, rel=0.03)


def test_on_drift_the_balance_moves_capacity_to_the_samplers_in_few_moves() -> None:
    policy = Steelyard(profile("drift"))
    done = run(profile("drift"), policy, seed=1)
    first, last = done.changes[0].allocation, done.changes[-1].allocation
    assert len(done.step_ends) == 150
    assert last.replicas(Stage.SAMPLER) >= 1.5 * first.replicas(Stage.SAMPLER)
    assert 1 <= done.moves <= 15
    assert len(policy.revisions) == len(done.changes)


def test_replicas_that_die_and_scrapes_that_are_lost_neither_stop_the_balance_nor_make_it_flap() -> None:
    """Each replica dies every half an hour, its counters start anew; one scrape in ten is lost."""
    rough = replace(profile("drift").cluster, hours_between_failures=0.5, dropped_scrapes=0.1)
    setup = replace(profile("drift"), steps=40, cluster=rough)
    start, policy = split(setup, 8, 4, 28), Steelyard(setup)
    balanced, fixed = (run(setup, one, 1, start) for one in (policy, Static()))
    assert balanced.throughput > 1.2 * fixed.throughput
    assert balanced.moves <= 15
    assert Verdict.ROLLED_BACK not in {revision.status.verdict for revision in policy.revisions}
