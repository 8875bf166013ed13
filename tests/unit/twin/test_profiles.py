"""Profiles and the jobs they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.api import AgenticRLJob, Stage
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import best_split, demand, job_of, split
from steelyard.twin.policies.split import Units
from steelyard.twin.profiles import MOST_GPUS, PROFILES, TooFewGpus, UnknownProfile, profile


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_a_job_that_the_api_accepts(name: str) -> None:
    setup = profile(name)
    job = job_of(setup, split(setup, 8, 4, 12))
    assert AgenticRLJob.model_validate(job.model_dump(by_alias=True, exclude_none=True)) == job
    assert job.spec.initial_allocation == split(setup, 8, 4, 12)
    assert job.spec.algorithm.batch == setup.batch


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownProfile, match="'drft'; known are drift, jump"):
        profile("drft")


@pytest.mark.parametrize("gpus", [-1, 0, 6])
def test_a_budget_that_holds_no_pipeline_is_refused(gpus: int) -> None:
    with pytest.raises(TooFewGpus, match=f"gpus: {gpus}; .* take 7"):
        profile("drift", gpus)


@pytest.mark.parametrize("gpus", [7, 13, MOST_GPUS])
def test_every_other_budget_is_split(gpus: int) -> None:
    setup = profile("steady", gpus)
    best = best_split(setup)
    assert best.gpus(job_of(setup, best).spec.gpu_prices) <= gpus
    assert all(best.replicas(stage) >= 1 for stage in Stage)


@pytest.mark.parametrize("gpus", [7, 26, 48, 55, 80, 200, MOST_GPUS])
def test_every_number_of_trainer_blocks_is_a_size_that_the_job_has(gpus: int) -> None:
    """Policies count the trainer in blocks; GPUs that no profile has would wait for ever."""
    setup = profile("steady", gpus)
    prices = job_of(setup, split(setup, 1, 1, min(setup.trainer.sizes))).spec.gpu_prices[Stage.TRAINER]
    for blocks in range(1, len(setup.trainer.sizes) + 1):
        (size,) = Units(1, 1, blocks).allocation(setup)[Stage.TRAINER]
        assert prices[size] == blocks * setup.trainer.block
    (largest,) = Units(1, 1, 1000).allocation(setup)[Stage.TRAINER]
    assert prices[largest] == max(setup.trainer.sizes)


def test_a_trainer_of_so_many_gpus_is_as_fast_however_its_blocks_are_counted() -> None:
    trainer = profile("steady").trainer
    for gpus in (4, 16, 28):
        other = trainer.in_blocks_of(8)
        assert other.gpu_seconds / other.speed(gpus) == pytest.approx(trainer.gpu_seconds / trainer.speed(gpus))


def test_a_profile_that_the_job_does_not_have_is_refused() -> None:
    setup = profile("steady", 24)
    with pytest.raises(ValueError, match=r"no such GPU profile.*x6"):
        Pipeline(setup, split(setup, 1, 1, 6), seed=1)


def test_a_job_of_any_name_can_be_simulated() -> None:
    """`twin-recorded-` and the longest name that a job may have."""
    setup = replace(profile("steady", 24), name=f"recorded-{'n' * 25}-{'n' * 14}")
    assert len(job_of(setup).metadata.name) <= 40


def test_drift_belongs_to_the_version() -> None:
    drift, jump, back = profile("drift"), profile("jump"), profile("up-down")
    assert demand(drift, 149).tokens / demand(drift, 0).tokens == pytest.approx(4.6, rel=0.02)
    assert jump.factor(52) == 1
    assert jump.factor(53) == jump.growth
    assert back.factor(0) == pytest.approx(back.factor(149))
    assert max(back.factor(step) for step in range(150)) == pytest.approx(back.growth, rel=0.02)
