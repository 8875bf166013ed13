"""The closed loop against a simulated pipeline: the demo, drift, harm, blindness, calm."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from steelyard.api import Allocation, Origin, RevisionPhase, Stage, Verdict
from steelyard.balance.types import Action
from tests.builders import SLICE, WHOLE
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.replicas import Setup

QUICK = Setup(turns=1, tokens=10, tool_seconds=1.3, alpha=0.015, beta=0.0004, judge_seconds=0.11, step_seconds=0.5)
"""As the demo's stages are: most of the time is the tools'."""
FAST_SLICE = {**SLICE, "speedPercent": 150}
SEEDS = range(2)


def measured(loop: Loop, number: int) -> tuple[float, float]:
    figures = loop.revisions[number - 1].status.measured
    assert figures is not None
    assert figures.throughput_before is not None
    assert figures.throughput_after is not None
    return float(figures.throughput_before), float(figures.throughput_after)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_demo_grows_the_environment_first_then_moves_a_gpu_to_the_judge_and_rests(seed: int) -> None:
    loop = Loop(demo_job(), Setup(seed=seed)).run(400)
    first, environment, gpu = loop.revisions
    assert first.spec.reason == "initial allocation"

    move = environment.spec.allocation
    assert set(move.before.diff(move.after)) == {(Stage.ENVIRONMENT, "default")}
    assert environment.status.verdict is Verdict.KEPT
    before, after = measured(loop, 2)
    assert after / before >= 1.5

    changes = gpu.spec.allocation.before.diff(gpu.spec.allocation.after)
    assert changes[Stage.SAMPLER, "whole"] == -1
    assert changes[Stage.REWARD_SERVER, "whole"] == 1
    assert gpu.spec.allocation.after.gpus(loop.job.spec.gpu_prices) == loop.job.spec.budget.gpus
    assert gpu.status.verdict is Verdict.KEPT

    assert loop.pipeline.most_gpus <= float(loop.job.spec.budget.gpus)
    assert loop.decisions[-1][1].kind in {"Balanced", "DeadBand"}


@pytest.mark.parametrize(
    "setup",
    [
        Setup(judge_seconds=1.0),
        Setup(tool_seconds=5.0),
        Setup(step_seconds=8.0),
        Setup(alpha=0.1, beta=0.02, tool_seconds=0.5),
        Setup(beta=0.0),
        Setup(scrape_seconds=2.5),
        Setup(start_seconds=25.0),
        Setup(tokens=4),
    ],
    ids=[
        "slow judge",
        "slow tool",
        "slow trainer",
        "slow sampler",
        "free batching",
        "rare scrapes",
        "slow start",
        "idle samplers",
    ],
)
def test_every_bottleneck_is_found_kept_and_then_left_alone(setup: Setup) -> None:
    loop = Loop(demo_job(), setup).run(600)
    assert 2 <= len(loop.revisions) <= 4
    assert {revision.status.verdict for revision in loop.revisions[1:]} == {Verdict.KEPT}
    quiet = len(loop.revisions)
    loop.run(150)
    assert len(loop.revisions) == quiet


def test_noise_alone_moves_nothing() -> None:
    """pmady/keda-gpu-scaler#110: near the threshold nothing flaps."""
    loop = Loop(demo_job(), Setup(spread=0.9)).run(700)
    settled = len(loop.revisions)
    loop.run(500)
    assert len(loop.revisions) <= settled + 1


def test_a_stage_moves_at_most_once_per_cooldown() -> None:
    job = demo_job({"scaling.cooldownSeconds": 60})
    loop = Loop(job, Setup())
    for period in range(8):  # a judge that is slow and fast in turn, a square wave
        loop.pipeline.setup = Setup(judge_seconds=1.5 if period % 2 else 0.1)
        loop.run(120)
    for stage in Stage:
        moves = [
            revision.metadata.creation_timestamp.timestamp()
            for revision in loop.revisions[1:]
            if revision.metadata.creation_timestamp
            and dict(revision.spec.allocation.before[stage]) != dict(revision.spec.allocation.after[stage])
            and revision.spec.origin is Origin.OPERATOR
        ]
        assert all(later - earlier >= 60 for earlier, later in pairwise(moves)), stage


def test_a_profile_that_disappoints_is_taken_back_and_the_ledger_learns_its_true_speed() -> None:
    job = demo_job(
        {
            "stages.rewardServer.gpuProfiles": [WHOLE, FAST_SLICE],
            "stages.environment.replicas": {"min": 4, "max": 4},
        }
    )
    loop = Loop(job, Setup(slow_profiles=frozenset({(Stage.REWARD_SERVER, "slice")}))).run(1200)
    harmful, rollback, better = loop.revisions[1:4]
    assert "slice" in harmful.spec.allocation.after[Stage.REWARD_SERVER]
    assert harmful.status.verdict is Verdict.ROLLED_BACK
    assert "of the 2." in (harmful.status.evidence or "")
    assert rollback.spec.origin is Origin.ROLLBACK
    assert rollback.spec.allocation.after == harmful.spec.allocation.before
    assert better.spec.allocation.after[Stage.REWARD_SERVER] == {"whole": 2}
    assert better.status.verdict is Verdict.KEPT
    assert len(loop.revisions) == 4


def test_a_profile_that_never_starts_is_taken_back_and_barred_and_the_rest_goes_on() -> None:
    """ray-project/kuberay#4178: not stuck for ever, the reason surfaces."""
    job = demo_job(
        {
            "stages.rewardServer.gpuProfiles": [WHOLE, FAST_SLICE],
            "stages.environment.replicas": {"min": 4, "max": 4},
            "scaling.horizonSeconds": 1800,
        }
    )
    loop = Loop(job, Setup(broken_profiles=frozenset({(Stage.REWARD_SERVER, "slice")}))).run(1000)
    broken, rollback, other = loop.revisions[1:4]
    assert broken.status.verdict is Verdict.ROLLED_BACK
    assert "reward-server 0 of 2 ready (CrashLoopBackOff)" in (broken.status.evidence or "")
    assert rollback.spec.allocation.after == broken.spec.allocation.before
    assert other.spec.allocation.after[Stage.REWARD_SERVER] == {"whole": 2}
    assert other.status.verdict is Verdict.KEPT


def test_mode_observe_recommends_and_changes_nothing() -> None:
    loop = Loop(demo_job({"scaling.mode": "Observe"})).run(300)
    assert len(loop.revisions) == 1
    assert loop.decisions[-1][1].action is Action.RECOMMEND
    assert loop.decisions[-1][1].reason.startswith("mode Observe, would do: environment 1 -> 2")


def test_blindness_changes_nothing_and_sight_resumes() -> None:
    """kedacore/keda#4249: one stable outage state, no oscillation over 20 ticks; kubernetes/kubernetes#105187."""
    loop = Loop(demo_job()).run(90)
    loop.blind = True
    before = len(loop.revisions)
    for _ in range(20):
        plan = loop.tick()
        loop.pipeline.advance(5)
        assert plan.revision is None
        assert plan.metrics.status is False
    assert len(loop.revisions) == before
    loop.blind = False
    loop.run(350)
    assert loop.revisions[-1].status.verdict is Verdict.KEPT


def test_an_operator_that_dies_between_closing_a_revision_and_recording_the_next_makes_the_same_move() -> None:
    loop = Loop(demo_job())
    while len(loop.revisions) < 2:
        loop.run(5)
    lost = loop.revisions.pop()
    assert loop.revisions[0].status.phase is RevisionPhase.SUPERSEDED
    plan = loop.tick()
    assert plan.revision is not None
    assert plan.revision.spec.number == lost.spec.number
    assert plan.revision.spec.allocation == lost.spec.allocation


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_is_no_reason_to_move(stage: Stage, seed: int) -> None:
    """While one stage was away, what the others did says nothing about what they can."""
    loop = Loop(demo_job({"stages.environment.replicas": {"min": 1, "max": 6}}), replace(QUICK, seed=seed)).run(500)
    settled = len(loop.revisions)
    for _ in range(3):
        loop.pipeline.kill(stage, 40)
        loop.run(90)
    assert len(loop.revisions) == settled, loop.revisions[-1].spec.reason


@pytest.mark.parametrize(
    ("stage", "verdict"), [(Stage.TRAINER, Verdict.KEPT), (Stage.ENVIRONMENT, Verdict.ROLLED_BACK)], ids=str
)
def test_an_outage_speaks_against_a_move_only_where_it_moved_something(stage: Stage, verdict: Verdict) -> None:
    loop = Loop(demo_job({"scaling.evaluation.steps": 5}), QUICK)
    while len(loop.revisions) < 2 or loop.active.status.measuring_time is None:
        loop.run(5)
    grown = loop.active.metadata.name
    for _ in range(5):
        loop.pipeline.kill(stage, 20)
        loop.run(30)
    loop.run(120)
    assert [one.status.verdict for one in loop.revisions if one.metadata.name == grown] == [verdict]


def test_drift_moves_capacity_again() -> None:
    """Answers grow tenfold: what was given to the judge must go back to the samplers."""
    loop = Loop(demo_job({"stages.environment.replicas": {"min": 4, "max": 4}})).run(500)
    given = loop.active.spec.allocation.after
    assert given[Stage.REWARD_SERVER] == {"whole": 2}
    loop.pipeline.setup = Setup(tokens=200)
    loop.run(800)
    assert loop.active.spec.allocation.after == Allocation.of(
        {
            Stage.SAMPLER: {"whole": 2},
            Stage.ENVIRONMENT: {"default": 4},
            Stage.REWARD_SERVER: {"whole": 1},
            Stage.TRAINER: {"whole": 1},
        }
    )
    assert loop.revisions[-1].status.verdict in {Verdict.KEPT, Verdict.INCONCLUSIVE}
