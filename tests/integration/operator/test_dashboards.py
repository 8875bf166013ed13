"""Every query of every dashboard has data from a real Prometheus, of a job that was moved, judged and held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product

import pytest

from e2e.dashboards import Shown, without_data
from e2e.kube import Object
from monitoring.catalog import CADVISOR, DCGM, KUBELET, VLLM, Described, of_workers
from steelyard.api import Stage
from steelyard.api.names import API_VERSION
from steelyard_workers.clock import State
from steelyard_workers.metrics import OUTCOMES
from tests.builders import pool_manifest
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus
from tests.integration.workers import Work, Workers

pytestmark = pytest.mark.timeout(240, func_only=True)

SHARES = {State.BUSY: 0.3, State.TOKENS: 0.3, State.SYNC: 0.2}
VALUES = {
    "outcome": OUTCOMES,
    "state": tuple(State),
    "buffer": ("tasks", "trajectories", "experience"),
    "kind": ("prompt", "generated", "tool"),
    "tool": ("calculator",),
}
POOLS = f"/apis/{API_VERSION}/rlpools"
TRIES = 20


def labels(metric: Described, stage: Stage) -> Iterator[dict[str, str]]:
    """Every combination of the values that its labels may have in a pod of this stage."""
    values = ((stage.value,) if name == "stage" else VALUES[name] for name in metric.labels)
    for combination in product(*values):
        yield {name: str(value) for name, value in zip(metric.labels, combination, strict=True)}


def series(name: str, of: dict[str, str]) -> str:
    matchers = ",".join(f'{key}="{value}"' for key, value in of.items())
    return f"{name}{{{matchers}}}" if of else name


def everything(stage: Stage) -> Work:
    """A replica that measures all that any worker does, and of which the kubelet and exporters tell what they can."""
    counters, gauges = {}, {}
    for metric in of_workers():
        for of in labels(metric, stage):
            if metric.kind == "gauge":
                gauges[series(metric.name, of)] = 4.0
            elif metric.kind == "counter":
                counters[series(metric.name, of)] = SHARES.get(State(of["state"]), 0.04) * 4 if "state" in of else 1.0
            else:
                counters |= {series(f"{metric.name}_bucket", {**of, "le": le}): 1.0 for le in ("1", "+Inf")}
                counters |= {series(f"{metric.name}_{part}", of): 1.0 for part in ("sum", "count")}
    if stage is Stage.SAMPLER:
        for name in VLLM:
            if name.endswith("_seconds"):
                counters |= {f'{name}_bucket{{le="{le}"}}': 100.0 for le in ("1", "+Inf")}
                counters |= {f"{name}_sum": 1.0, f"{name}_count": 100.0}
            elif name.endswith("_total"):
                counters[name] = 100.0
            else:
                gauges[name] = 0.5
    counters |= {f'{name}{{container="worker"}}': 0.01 for name in CADVISOR if name.endswith("_total")}
    gauges['container_memory_working_set_bytes{container="worker"}'] = 1e8
    claim = '{persistentvolumeclaim="calculator-weights"}'
    gauges |= {f"{name}{claim}": size for name, size in zip(KUBELET, (1e9, 4e9), strict=True)}
    gauges |= {f'{name}{{gpu="0"}}': size for name, size in zip(DCGM, (1e3, 3e3), strict=True)}
    return Work(counters, gauges)


def at(seconds_ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


START = {"sampler": {"whole": 1}, "environment": {"default": 1}, "rewardServer": {"whole": 1}, "trainer": {"whole": 1}}
MORE = {**START, "environment": {"default": 2}}
OTHER = {**MORE, "sampler": {"slice": 1}}
LEDGER: tuple[tuple[str, Object, str | None], ...] = (
    ("Operator", START, None),
    ("Operator", MORE, "Kept"),
    ("Operator", START, "RolledBack"),
    ("Rollback", MORE, None),
    ("Operator", OTHER, "Inconclusive"),
    ("User", MORE, None),
)
"""Origin, allocation, verdict: a job that was moved up, down and to another profile, and is held by its user."""


def ledger(job: str) -> Iterator[tuple[Object, Object]]:
    """Each revision and its status, oldest first."""
    before: Object = {}
    for number, (origin, after, verdict) in enumerate(LEDGER, start=1):
        spec: Object = {
            "number": number,
            "origin": origin,
            "reason": "made up",
            "allocation": {"before": before, "after": after},
        }
        status: Object = {"phase": "Superseded" if number < len(LEDGER) else "Judged", "appliedTime": at(600 - number)}
        if number > 1:
            spec["parent"] = f"{job}-{number - 1}"
        if origin == "User":
            spec["expiresAt"] = at(-3600)
        if verdict:
            spec["predicted"] = {"gainPercent": 20, "costSeconds": 30}
            measured = {"throughputBefore": "2", "throughputAfter": "2.2", "transitionCostSeconds": "25"}
            status |= {"verdict": verdict, "judgedTime": at(500 - number), "measured": measured}
        metadata = {"name": f"{job}-{number}", "labels": {"steelyard.dev/job": job}}
        yield {"apiVersion": API_VERSION, "kind": "AllocationRevision", "metadata": metadata, "spec": spec}, status
        before = after


def test_every_panel_has_data_of_a_job_that_was_moved_judged_and_held(
    operated: Operated, prometheus: Prometheus, workers: Workers
) -> None:
    prometheus.scrape_operator(operated.operator.url)
    for stage in Stage:
        workers.show(operated.namespace, "calculator", stage, everything(stage))
    operated.server.request("POST", POOLS, pool_manifest(name=operated.namespace))
    for revision, status in ledger("calculator"):
        operated.server.apply([revision], operated.namespace)
        path = f"/apis/{API_VERSION}/namespaces/{operated.namespace}/allocationrevisions/{revision['metadata']['name']}"
        operated.server.request("PATCH", f"{path}/status", {"status": status})
    try:
        operated.start({"scaling": {"mode": "Dynamic", "intervalSeconds": 1}})
        operated.create(name="newborn")  # the operator records its first revision

        shown = partial(Shown, operated.namespace, "calculator", seconds=120, scrape_seconds=1)
        for _ in range(TRIES):
            missing = without_data(prometheus.url, shown(), {})
            if not missing:
                break
            time.sleep(2)
        assert not missing, "\n".join(missing)
    finally:
        operated.server.request("DELETE", f"{POOLS}/{operated.namespace}")
