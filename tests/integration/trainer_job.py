"""A small job for tests of the trainer, and what must be true at its end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import checker
from e2e.local import Pipeline, job_json, pipeline
from tests.integration.small_policy import small_model
from tests.integration.trainer_process import few_tasks

STEPS, GROUPS, SIZE, EVERY = 6, 2, 2, 2
ALL = STEPS * GROUPS * SIZE


def small_job(**algorithm: Any) -> dict[str, Any]:
    """Six steps of two groups of two."""
    numbers = {"steps": STEPS, "promptsPerStep": GROUPS, "groupSize": SIZE, "maxStaleness": 1}
    return job_json(algorithm={**numbers, **algorithm}, checkpoints={"everySteps": EVERY})


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Pipeline]:
    """The job's pipeline, of which the bus runs."""
    model, tasks = small_model(tmp_path / "model"), few_tasks(tmp_path / "tasks")
    with pipeline(tmp_path, small_job(), model=model, tasks=tasks) as parts:
        parts.start("bus")
        yield parts


async def findings(parts: Pipeline) -> checker.Findings:
    """What the checker says now."""
    return await checker.check(parts.nats_url, parts.job["name"], parts.checkpoints)


async def assert_exact(parts: Pipeline, *, closed_untrained: int = 0) -> None:
    """Every step was trained and committed, on ids of which none was lost and none used twice."""
    found = await findings(parts)
    assert found.ok, found
    assert (found.step, found.trained, found.closed_untrained) == (STEPS, ALL - closed_untrained, closed_untrained)
    assert json.loads(parts.termination("trainer")) == {"complete": True, "step": STEPS}
