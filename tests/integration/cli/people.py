"""People with few rights who look at a job with the command line, and a job whose stages measure something."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.cluster import Cluster, kubectl
from steelyard.api import Stage
from tests.integration.cli.conftest import PROGRAM, Answer
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus
from tests.integration.workers import Work, Workers, stage_work

ROOT = Path(__file__).parents[3]
SECONDS = 60


def item(answer: Answer) -> Any:
    """The only item of a JSON document."""
    (found,) = json.loads(answer.out)["items"]
    return found


@dataclass(frozen=True)
class Person:
    """Somebody with a kubeconfig, a default namespace and a shell."""

    kubeconfig: Path

    def steelyard(self, *arguments: str) -> Answer:
        """The console script as a process of its own, off a terminal."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECTL": kubectl()}
        done = subprocess.run(
            [*PROGRAM, *arguments], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)


def person(cluster: Cluster, folder: Path, namespace: str, name: str, *roles: str) -> Person:
    """A service account of the namespace with these cluster roles in it."""
    cluster.kubectl("create", "serviceaccount", name, f"--namespace={namespace}")
    account, inside = f"--serviceaccount={namespace}:{name}", f"--namespace={namespace}"
    for role in roles:
        cluster.kubectl("create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", account, inside)
    token = cluster.kubectl("create", "token", name, f"--namespace={namespace}", "--duration=1h")
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--output=json"))
    config["users"] = [{"name": user["name"], "user": {"token": token.strip()}} for user in config["users"]]
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    path = folder / f"{name}.kubeconfig"
    path.write_text(json.dumps(config))
    return Person(path)


@pytest.fixture
def viewer(cluster: Cluster, namespace: str, tmp_path: Path) -> Person:
    """May look: what Kubernetes calls `view`, to which our own viewer role is added."""
    manifest = ROOT / "manifests/overlays/cluster/user-roles.yaml"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={manifest}")
    return person(cluster, tmp_path, namespace, "viewer", "view", "steelyard-viewer")


@pytest.fixture
def stranger(cluster: Cluster, namespace: str, tmp_path: Path) -> Person:
    """May do nothing."""
    return person(cluster, tmp_path, namespace, "stranger")


WORK: dict[Stage, Work] = {
    Stage.SAMPLER: stage_work(Stage.SAMPLER, 1.0, busy=0.8, starved=0.2),
    Stage.ENVIRONMENT: stage_work(Stage.ENVIRONMENT, 2.0, slots=8, tool=0.7, tokens=0.2, starved=0.1),
    Stage.REWARD_SERVER: stage_work(Stage.REWARD_SERVER, 2.0, busy=0.6, starved=0.4),
    Stage.TRAINER: stage_work(Stage.TRAINER, 2.0, busy=0.3, starved=0.7),
}
ENGINE = {
    "vllm:generation_tokens_total": 80.0,
    "vllm:inter_token_latency_seconds_sum": 2.0,
    "vllm:inter_token_latency_seconds_count": 80.0,
}


@pytest.fixture
def measured(operated: Operated, workers: Workers, prometheus: Prometheus) -> Operated:
    """A job in mode Dynamic that is ready and whose stages measure something."""
    for stage, work in WORK.items():
        counters, gauges = dict(work.counters), dict(work.gauges)
        if stage is Stage.SAMPLER:
            counters |= ENGINE
            gauges["vllm:num_requests_running"] = 4.0
        if stage is Stage.TRAINER:
            counters["steelyard_train_step_seconds_count"] = 0.2
        workers.show(operated.namespace, "calculator", stage.value, Work(counters, gauges))
    operated.start({"scaling": {"mode": "Dynamic", "intervalSeconds": 1, "cooldownSeconds": 5}})
    operated.until("metrics are read", lambda: operated.has("MetricsAvailable"))
    return operated
