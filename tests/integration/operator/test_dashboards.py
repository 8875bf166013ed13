"""Every query of every dashboard has data from a real Prometheus, once a job was moved, judged and held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from e2e.dashboards import Shown, without_data
from e2e.kube import Object
from monitoring.catalog import VLLM, Described, of_workers
from steelyard.api import Stage
from steelyard_workers.clock import State
from steelyard_workers.metrics import OUTCOMES
from tests.builders import pool_manifest
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus
from tests.integration.workers import Work, Workers

pytestmark = pytest.mark.timeout(240, func_only=True)

SHARES = {State.BUSY: 0.4, State.TOKENS: 0.3, State.STARVED: 0.1}
VALUES = {
    "outcome": OUTCOMES,
    "state": tuple(State),
    "buffer": ("tasks", "trajectories", "experience"),
    "kind": ("prompt", "generated", "tool"),
    "tool": ("calculator",),
}
PATIENCE = 15
MAY_LACK = {
    "container_": "pods are made up, so no kubelet measures them",
    "kubelet_": "likewise",
    "DCGM_": "likewise",
}


def labels(metric: Described, stage: Stage) -> Iterator[dict[str, str]]:
    """Every combination of the values that its labels may have in a pod of this stage."""
    values = ((stage.value,) if name == "stage" else VALUES[name] for name in metric.labels)
    for combination in product(*values):
        yield {name: str(value) for name, value in zip(metric.labels, combination, strict=True)}


def series(name: str, of: dict[str, str]) -> str:
    matchers = ",".join(f'{key}="{value}"' for key, value in of.items())
    return f"{name}{{{matchers}}}" if of else name


def everything(stage: Stage) -> Work:
    """A replica that measures all that any worker measures."""
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
    return Work(counters, gauges)


def by_hand(number: int, environments: int, hold: timedelta) -> Object:
    return {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "AllocationRevision",
        "metadata": {"name": f"calculator-{number}", "labels": {"steelyard.dev/job": "calculator"}},
        "spec": {
            "number": number,
            "origin": "User",
            "expiresAt": (datetime.now(UTC) + hold).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "allocation": {
                "after": {
                    "sampler": {"whole": 2},
                    "environment": {"default": environments},
                    "rewardServer": {"whole": 1},
                    "trainer": {"whole": 1},
                }
            },
            "reason": "by hand",
        },
    }


def test_every_panel_has_data_after_a_move_a_verdict_and_a_hold(
    operated: Operated, prometheus: Prometheus, workers: Workers
) -> None:
    prometheus.scrape_operator(operated.operator.url)
    for stage in (*Stage, "bus"):
        workers.show(
            operated.namespace, "calculator", stage, everything(Stage(stage) if stage != "bus" else Stage.TRAINER)
        )
    operated.server.request("POST", "/apis/steelyard.dev/v1alpha1/rlpools", pool_manifest(name=operated.namespace))
    try:
        evaluation = {"settleSeconds": 0, "steps": 1}
        operated.start({"scaling": {"mode": "Dynamic", "intervalSeconds": 1, "evaluation": evaluation}})
        operated.until("metrics are read", lambda: operated.has("MetricsAvailable"))

        operated.server.apply([by_hand(2, 2, hold=timedelta())], operated.namespace)
        operated.until("the move is judged", lambda: _judged(operated, "calculator-2"))
        newest = len(operated.revisions())
        operated.server.apply([by_hand(newest + 1, 3, hold=timedelta(hours=1))], operated.namespace)

        shown = Shown(operated.namespace, "calculator", seconds=120)
        missing = without_data(prometheus.url, shown, MAY_LACK)
        for _ in range(PATIENCE):
            if not missing:
                break
            time.sleep(2)
            missing = without_data(prometheus.url, shown, MAY_LACK)
        assert missing == []
    finally:
        operated.server.request("DELETE", f"/apis/steelyard.dev/v1alpha1/rlpools/{operated.namespace}")


def _judged(operated: Operated, name: str) -> bool:
    revision = operated.objects()["AllocationRevision", name]
    return bool((revision.get("status") or {}).get("judgedTime"))
