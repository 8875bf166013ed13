"""A job is rehearsed on a real cluster: three short runs, one after the other, and nothing of them stays."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest

from e2e.kube import Kube, Object, wait_for
from e2e.scenarios.live import NAMESPACE

GONE_SECONDS = 120
LABEL = "steelyard.dev/job"


@pytest.fixture(scope="module")
def rehearsed(rehearsal: Future[str], manifest: Object) -> list[dict[str, Any]]:
    """What was recorded of each run."""
    found: list[dict[str, Any]] = json.loads(rehearsal.result())["items"]
    assert [one["job"] for one in found] == [f"{manifest['metadata']['name']}-rehearsal-{n}" for n in (1, 2, 3)]
    return found


def test_every_size_comes_to_its_end_with_all_that_was_to_be_measured(rehearsed: list[dict[str, Any]]) -> None:
    for one, steps in zip(rehearsed, (2, 3, 5), strict=True):
        assert one["failure"] is None
        assert one["steps"] >= steps
        assert one["readySeconds"] > 0
        assert one["stepSeconds"] > 0
        assert {"tasks", "sampler", "tools", "environment", "reward", "trainerQueue", "trainer"} <= one["shares"].keys()
    everything = rehearsed[2]
    within = sum(seconds for share, seconds in everything["shares"].items() if share != "tasks")
    assert within == pytest.approx(everything["medianSeconds"], rel=0.5)
    assert everything["shares"]["tools"] > 0.3, "a calculation of the example takes 1.3 s"
    assert rehearsed[0]["trained"] < rehearsed[1]["trained"] < rehearsed[2]["trained"]


def test_nothing_of_a_rehearsal_stays(rehearsed: list[dict[str, Any]], kube: Kube) -> None:
    names = ",".join(one["job"] for one in rehearsed)
    assert not kube.list("AgenticRLJob", NAMESPACE, "steelyard.dev/rehearsal")

    def left() -> list[str]:
        kinds = ("Pod", "PersistentVolumeClaim", "Deployment", "AllocationRevision")
        return [kind for kind in kinds if kube.list(kind, NAMESPACE, f"{LABEL} in ({names})")]

    wait_for("all that a rung had to be gone", lambda: not left(), GONE_SECONDS)
