"""The rungs that `steelyard rehearse` makes of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from steelyard.api import AgenticRLJob, Stage
from steelyard.cli.rehearsing.ladder import Rung, ladder, rung_name
from tests.builders import job_manifest


def rungs(changes: Mapping[str, Any] | None = None, name: str = "calculator") -> tuple[Rung, ...]:
    manifest = job_manifest(changes, name=name)
    return ladder(manifest["spec"], AgenticRLJob.model_validate(manifest), "team")


def parsed(rung: Rung) -> AgenticRLJob:
    return AgenticRLJob.model_validate(dict(rung.manifest))


JOBS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "in mode Fixed": {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"slice": 4}}}},
    "pinned and suspended": {"scaling": {"pin": "calculator-3"}, "suspend": True},
    "with a large batch": {"algorithm": {"groupSize": 32, "promptsPerStep": 64}, "buffer.maxExperience": 20000,
                           "buffer.maxTrajectories": 20000},
    "with a small batch": {"algorithm": {"groupSize": 2, "promptsPerStep": 1}},
    "with planning": {"planning": {"model": "qwen3-14b", "hardware": "a800-80g"}},
    "with minima": {"stages.environment.replicas": {"min": 4, "max": 8}},
    "of a pool": {"pool": {"name": "shared", "queue": "high"}},
}  # fmt: skip


@pytest.mark.parametrize("changes", JOBS.values(), ids=JOBS)
def test_every_rung_is_a_valid_job_that_moves_nothing_and_ends_if_nobody_ends_it(changes: dict[str, Any]) -> None:
    made = [parsed(rung) for rung in rungs(changes)]
    for job in made:
        assert job.spec.algorithm.steps == 1000, "enough to be read in time, and no end of GPU-hours"
        assert job.spec.scaling.mode == (
            "Fixed" if "fixed" in changes.get("scaling", {}) and job is made[2] else "Observe"
        )
        assert job.spec.scaling.pin is None
        assert not job.spec.suspend
        assert job.spec.checkpoints.reclaim == "Delete"
        assert job.spec.tracing.sample_percent == 100
        assert job.metadata.namespace == "team"
        assert job.metadata.labels == {"steelyard.dev/rehearsal": "calculator"}
    assert [job.metadata.name for job in made] == [f"calculator-rehearsal-{number}" for number in (1, 2, 3)]


def test_the_load_grows_from_one_task_to_the_jobs_own() -> None:
    one, few, everything = (parsed(rung).spec for rung in rungs({"stages.environment.replicas.initial": 3}))
    assert [spec.algorithm.batch for spec in (one, few, everything)] == [2, 16, 128]
    assert one.algorithm.max_staleness == 0
    assert [spec.stages.environment.concurrency for spec in (one, few, everything)] == [2, 16, 16]
    assert [spec.initial_allocation.replicas(Stage.ENVIRONMENT) for spec in (one, few, everything)] == [1, 1, 3]


def test_a_rung_is_no_larger_than_the_job() -> None:
    small = {"algorithm": {"groupSize": 2, "promptsPerStep": 2}, "stages.environment.concurrency": 1}
    assert [parsed(rung).spec.algorithm.batch for rung in rungs(small)] == [2, 4, 4]
    assert [parsed(rung).spec.stages.environment.concurrency for rung in rungs(small)] == [1, 1, 1]


def test_long_names_are_cut_to_what_pods_can_have() -> None:
    assert rung_name("a" * 40, 2) == "a" * 28 + "-rehearsal-2"
    assert rung_name("a" * 27 + "-b", 2) == "a" * 27 + "-rehearsal-2"
