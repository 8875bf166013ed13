"""The simulated pipeline obeys the laws that any real one obeys, and never holds more GPUs than it may."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import inf

import pytest

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.twin.engine import START, Pipeline
from steelyard.twin.jobs import demand, split, truth
from steelyard.twin.profiles import Profile, Spread, Tools, profile
from tests.unit.twin.builders import STEPS, a_profile, finished, flow_only


@pytest.mark.parametrize(
    "setup",
    [
        a_profile(),
        a_profile(failed_share=0.2),
        a_profile(max_staleness=2, requeue_stale=True, trajectory_sigma=0.3),
        a_profile(cluster=replace(profile("steady").cluster, hours_between_failures=0.5)),
        a_profile(
            cluster=replace(profile("steady").cluster, hours_between_failures=0.5), episode_start=Spread(20, 0.5)
        ),
    ],
    ids=["usual", "many failures", "the too old made anew", "replicas die", "replicas die while episodes start"],
)
def test_every_trajectory_admitted_is_trained_failed_or_open(setup: Profile) -> None:
    pipeline = finished(setup)
    assert pipeline.step == STEPS
    assert pipeline.admitted == pipeline.trained + pipeline.failed + pipeline.open
    assert 0 <= pipeline.open <= setup.most_open
    assert pipeline.trained > 0.7 * STEPS * setup.batch


def test_episodes_in_the_environment_are_their_rate_times_their_duration() -> None:
    """Little's law, where the duration is known: no batching effect, no spread, tools that always take 3 s."""
    alone = replace(profile("steady").sampler, beta=0.0, max_num_seqs=4096, kv_tokens=10**9)
    setup = flow_only(steps=60, sampler=alone, trajectory_sigma=0.0)
    setup = replace(setup, tools=Tools(((1.0, Spread(3.0)),)))
    pipeline = finished(setup)
    duration = setup.mean_tokens * alone.alpha + 3 * 3.0
    playing = pipeline.meters()[Stage.ENVIRONMENT]
    started = pipeline.admitted - playing.queue
    assert (started - playing.serving) * duration < playing.busy_seconds < started * duration


def test_meters_agree_with_what_is_seen_at_instants() -> None:
    setup = a_profile(steps=200)
    pipeline = Pipeline(setup, split(setup, 8, 4, 28), 3)
    seen = dict.fromkeys(Stage, 0.0)
    for _ in range(600):
        pipeline.run_until(pipeline.now + 1.0)
        for stage, meter in pipeline.meters().items():
            seen[stage] += meter.serving
    for stage in (Stage.SAMPLER, Stage.ENVIRONMENT, Stage.REWARD_SERVER):
        assert pipeline.meters()[stage].busy_seconds == pytest.approx(seen[stage], rel=0.02), stage


def test_the_work_at_the_start_is_split_as_promised() -> None:
    drift = profile("drift")
    asked, model = demand(drift, 0), truth(drift, 0)
    work = {
        Stage.SAMPLER: drift.sampler.gpus * asked.tokens / model.capacities.latency["pair"].capacity,
        Stage.REWARD_SERVER: drift.reward.gpus * asked.judge_seconds / drift.reward.slots,
        Stage.TRAINER: asked.train_gpu_seconds * 28 / drift.trainer.speed(28),
    }
    shares = {stage: seconds / sum(work.values()) for stage, seconds in work.items()}
    assert shares[Stage.SAMPLER] == pytest.approx(0.35, abs=0.05)
    assert shares[Stage.REWARD_SERVER] == pytest.approx(0.10, abs=0.03)
    assert shares[Stage.TRAINER] == pytest.approx(0.55, abs=0.05)


def test_the_budget_holds_while_pods_drain_and_start() -> None:
    setup = a_profile(steps=30)
    pipeline = Pipeline(setup, split(setup, 8, 4, 28), 1)
    for target in (split(setup, 16, 4, 12), split(setup, 4, 12, 28), split(setup, 14, 4, 16)):
        pipeline.run_until(pipeline.now + 300)
        pipeline.apply(target)
        pipeline.run_until(pipeline.now + 20)
    pipeline.run_until(pipeline.now + 900)
    assert pipeline.most_gpus <= setup.gpus
    ready = {stage: meter.ready for stage, meter in pipeline.meters().items()}
    assert ready[Stage.SAMPLER] == 14
    assert ready[Stage.REWARD_SERVER] == 4
    assert ready[Stage.TRAINER] == 1


def test_gpu_hours_are_those_of_all_pods_that_exist() -> None:
    setup = a_profile()
    pipeline = finished(setup, split(setup, 8, 4, 28))
    held = sum(meter.gpu_seconds for meter in pipeline.meters().values())
    assert held == pytest.approx(48 * (pipeline.now - START))


def test_two_trainers_never_train_at_once() -> None:
    """A smaller trainer fits beside the old one; it waits for the step under way all the same."""
    setup = a_profile(steps=20)
    pipeline = Pipeline(setup, split(setup, 4, 4, 20), 1)
    while pipeline.meters()[Stage.TRAINER].serving == 0:
        pipeline.run_until(pipeline.now + 1)
    pipeline.apply(split(setup, 4, 4, 4))
    pipeline.run_until(inf)
    assert pipeline.meters()[Stage.TRAINER].busy_seconds <= pipeline.now - START
    assert pipeline.trained + pipeline.failed == 20 * setup.batch


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    setup = replace(profile("drift"), steps=4)
    code = (
        "from dataclasses import replace; from math import inf; from steelyard.twin.engine import Pipeline;"
        "from steelyard.twin.jobs import split; from steelyard.twin.profiles import profile;"
        "p = replace(profile('drift'), steps=4); run = Pipeline(p, split(p, 8, 4, 28), 5); run.run_until(inf);"
        "print(run.step_ends)"
    )
    surroundings = {"PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=surroundings)
    assert other.stdout.strip() == str(finished(setup, seed=5).step_ends)
    assert finished(setup, seed=6).step_ends != finished(setup, seed=5).step_ends


def test_an_episode_waits_for_its_environment_in_its_slot() -> None:
    """No tools are called, so all tool time of the slots is the start."""
    quick = flow_only(trajectory_sigma=0.0, failed_share=0.0)
    slow = replace(quick, episode_start=Spread(40.0))
    first, second = finished(quick), finished(slow)
    assert second.step_ends[0] > first.step_ends[0] + 25, "while samplers start, environments do too"
    tool = [
        one.samples[-1][1]
        for series in second.rates(1e9).samples[signals.STAGE_SECONDS].values()
        for one in series
        if one.label("state") == "tool"
    ]
    assert 40 * second.trained < sum(tool) <= 40 * second.admitted
    assert demand(slow, 0).tool_seconds == demand(quick, 0).tool_seconds + 40
