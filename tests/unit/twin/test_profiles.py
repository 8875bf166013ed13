"""Profiles and the jobs they are."""

from __future__ import annotations

import pytest

from steelyard.api import AgenticRLJob, Stage
from steelyard.twin.jobs import best_split, demand, job_of, split
from steelyard.twin.profiles import PROFILES, TooFewGpus, UnknownProfile, profile


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


@pytest.mark.parametrize("gpus", [7, 13, 200])
def test_every_other_budget_is_split(gpus: int) -> None:
    setup = profile("steady", gpus)
    best = best_split(setup)
    assert best.gpus(job_of(setup, best).spec.gpu_prices) <= gpus
    assert all(best.replicas(stage) >= 1 for stage in Stage)


def test_drift_belongs_to_the_version() -> None:
    drift, jump, back = profile("drift"), profile("jump"), profile("up-down")
    assert demand(drift, 149).tokens / demand(drift, 0).tokens == pytest.approx(4.6, rel=0.02)
    assert jump.factor(52) == 1
    assert jump.factor(53) == jump.growth
    assert back.factor(0) == pytest.approx(back.factor(149))
    assert max(back.factor(step) for step in range(150)) == pytest.approx(back.growth, rel=0.02)
