"""What a namespace's ResourceQuotas leave to a job: read as an API server sends them, and as the balance is told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.cluster import kinds
from steelyard.cluster.resource_quota import least, left_by
from steelyard.cluster.store import FOR_GOOD, Store
from steelyard.cluster.view import seen
from tests.builders import a_job, job_manifest
from tests.unit.operator.operating import FIXED, KEY, Operated

GPUS = "requests.nvidia.com/gpu"
GIB = 2**30
METADATA = {"name": "calculator", "namespace": "default", "uid": "job-1", "resourceVersion": "1", "generation": 1}

QUOTAS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Fraction]]] = {
    "GPUs that others use": ({}, {GPUS: "8"}, {GPUS: "5"}, {"nvidia.com/gpu": Fraction(3)}),
    "all is used, and more": ({}, {GPUS: "4"}, {GPUS: "6"}, {"nvidia.com/gpu": Fraction(0)}),
    "processors and memory": (
        {},
        {"requests.cpu": "10", "requests.memory": "8Gi"},
        {"requests.cpu": "2500m", "requests.memory": "1Gi"},
        {"cpu": Fraction(15, 2), "memory": Fraction(7 * GIB)},
    ),
    "both names of a resource: the narrower one": (
        {},
        {"cpu": "4", "requests.cpu": "6"},
        {"cpu": "1", "requests.cpu": "1"},
        {"cpu": Fraction(3)},
    ),
    "limits, storage and counts are none of it": (
        {},
        {"limits.cpu": "4", "requests.storage": "1Ti", "pods": "9", "count/jobs.batch": "2"},
        {},
        {},
    ),
    "some pods only": ({"scopes": ["BestEffort"]}, {GPUS: "1"}, {}, {}),
    "some pods only, by selector": (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
        {GPUS: "1"},
        {},
        {},
    ),
    "a number that we cannot read": ({}, {GPUS: "1e1", "cpu": "2"}, {}, {"cpu": Fraction(2)}),
    "nobody has counted yet": ({"hard": {GPUS: "8"}}, {}, {}, {}),
}


def a_quota(
    hard: dict[str, Any], used: dict[str, Any], spec: dict[str, Any] | None = None, name: str = "team"
) -> dict[str, Any]:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": spec or {},
        "status": {"hard": hard, "used": used},
    }


@pytest.mark.parametrize("case", QUOTAS)
def test_what_a_quota_leaves(case: str) -> None:
    spec, hard, used, want = QUOTAS[case]

    assert left_by(a_quota(hard, used, spec)) == want


def test_each_quota_of_a_namespace_binds() -> None:
    assert least([{"cpu": Fraction(3)}, {"cpu": Fraction(2), "memory": Fraction(9)}]) == {
        "cpu": Fraction(2),
        "memory": Fraction(9),
    }
    assert least([]) == {}


async def test_a_job_may_keep_what_its_pods_use_and_take_what_is_left() -> None:
    operated = Operated(FIXED)
    await operated.settle()
    operated.cluster.create(a_quota({GPUS: "8", "cpu": "1"}, {GPUS: "6"}))  # our four GPUs, and two of others

    view = operated.cluster.view(KEY)
    assert view is not None
    quota = seen(view, a_job(FIXED)).quota

    assert quota == {"nvidia.com/gpu": Fraction(4 + 2), "cpu": Fraction(1)}


def test_the_quota_of_another_namespace_and_one_that_is_gone_bind_nobody() -> None:
    store = Store()
    store.put(kinds.JOB, {**job_manifest(), "metadata": METADATA})
    elsewhere = a_quota({GPUS: "1"}, {}, name="elsewhere")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    store.put(kinds.QUOTA, elsewhere)
    store.put(kinds.QUOTA, a_quota({GPUS: "1"}, {}))
    store.remove(kinds.QUOTA, "default", "team", "team", FOR_GOOD)

    view = store.view(KEY, monitored=False)
    assert view is not None
    assert view.left == {}
