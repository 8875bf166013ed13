"""Words for the scenarios: an operator to kill, a job to look at, and what all its pods hold at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx

from e2e.kube import Object, condition, wait_for
from e2e.local import free_port
from steelyard.api import parse_quantity
from tests.builders import job_manifest
from tests.integration.kubelet import Kubelet
from tests.integration.processes import Process
from tests.integration.server import Server

NAMESPACE = "steelyard-system"
SOON = 60.0
"""Five times what the slowest of these waits took on two shared cores."""
LEASE_SECONDS = 60.0

STARTED = {"calculator-sampler-whole": 2, "calculator-environment": 1, "calculator-reward-server-whole": 1}
FIXED: dict[str, Any] = {
    "scaling": {"mode": "Fixed", "intervalSeconds": 1, "fixed": {"sampler": {"whole": 2}}},
    "budget.gpus": 4,
}


class Operator(Process):
    """`python -m steelyard` outside the cluster."""

    def __init__(
        self,
        python: str,
        kubeconfig: Path,
        prometheus: str,
        folder: Path,
        identity: str = "operator-0",
        namespaces: str = "",
        lease_namespace: str = NAMESPACE,
    ) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        settings = {
            "STEELYARD_KUBECONFIG": str(kubeconfig),
            "STEELYARD_PROMETHEUS_URL": prometheus,
            "STEELYARD_HTTP_PORT": str(port),
            "STEELYARD_LEASE_NAMESPACE": lease_namespace,
            "STEELYARD_IDENTITY": identity,
            "STEELYARD_NAMESPACES": namespaces,
        }
        argv = [python, "-m", "steelyard"]
        super().__init__("the operator", argv, folder / f"{identity}.log", f"{self.url}/healthz", settings)

    def metric(self, series: str) -> float:
        """The value of one series of its own metrics, 0 when it is not there."""
        page = httpx.get(f"{self.url}/metrics", timeout=5, trust_env=False).text
        return next((float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{series} ")), 0.0)

    def refused(self) -> list[str]:
        """Requests that the API server did not allow, by verb."""
        page = httpx.get(f"{self.url}/metrics", timeout=5, trust_env=False).text
        return [line for line in page.splitlines() if 'api_requests_total{outcome="403"' in line]

    def memory_mib(self) -> float:
        return self.metric("process_resident_memory_bytes") / 2**20


@dataclass
class Operated:
    """Jobs in one namespace under the control of one operator."""

    server: Server
    kubelet: Kubelet
    operator: Operator
    namespace: str

    def create(self, changes: Mapping[str, Any] | None = None, name: str = "calculator") -> None:
        self.server.apply(
            [job_manifest({**FIXED, **(changes or {})}, name=name, namespace=self.namespace)], self.namespace
        )

    def start(self, changes: Mapping[str, Any] | None = None, name: str = "calculator") -> None:
        """Create a job and wait until it is ready."""
        self.create(changes, name)
        self.until("the job is ready", lambda: self.has("Ready", name=name))

    def clear(self) -> None:
        """Give the node's GPUs back to the next test."""
        for job in self.server.list("AgenticRLJob", self.namespace):
            self.server.delete("AgenticRLJob", self.namespace, job["metadata"]["name"])
        self.until("all pods are gone", lambda: not self.pods(), seconds=90)  # the collector learns of new kinds late

    def change(self, spec: Object, name: str = "calculator") -> None:
        self.server.patch("AgenticRLJob", self.namespace, name, {"spec": spec})

    def job(self, name: str = "calculator") -> Object:
        found = self.server.get("AgenticRLJob", self.namespace, name)
        assert found is not None
        return found

    def condition(self, kind: str, name: str = "calculator") -> Object:
        return condition(self.job(name), kind)

    def has(self, kind: str, status: str = "True", name: str = "calculator") -> bool:
        job = self.job(name)
        newest = (job.get("status") or {}).get("observedGeneration") == job["metadata"]["generation"]
        return newest and condition(job, kind).get("status") == status

    def until(self, what: str, probe: Callable[[], Any], seconds: float = SOON) -> Any:
        return wait_for(what, probe, seconds, every=0.1)

    def rounds(self) -> float:
        """Ticks that ended well since the operator started."""
        return self.operator.metric('steelyard_operator_ticks_total{result="done"}')

    def pass_rounds(self, n: int) -> None:
        """Wait for `n` more of them."""
        before = self.rounds()
        self.until(f"{n} more rounds", lambda: self.rounds() >= before + n)

    def objects(self) -> dict[tuple[str, str], Object]:
        """Everything of all jobs but pods and ReplicaSets, by kind and name."""
        kinds = (
            "ConfigMap",
            "Service",
            "PersistentVolumeClaim",
            "StatefulSet",
            "Deployment",
            "Job",
            "AllocationRevision",
        )
        return {
            (kind, obj["metadata"]["name"]): obj
            for kind in kinds
            for obj in self.server.list(kind, self.namespace, "steelyard.dev/job")
        }

    def replicas(self) -> dict[str, int]:
        """Replicas asked for, those with none left out."""
        found = {
            name: obj["spec"].get("replicas", 1)
            for (kind, name), obj in self.objects().items()
            if kind in ("StatefulSet", "Deployment", "Job")
        }
        return {name: n for name, n in found.items() if n}

    def pods(self, stage: str | None = None) -> list[Object]:
        selector = "steelyard.dev/job" if stage is None else f"steelyard.dev/job,steelyard.dev/stage={stage}"
        return self.server.list("Pod", self.namespace, selector)

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.server.list("Event", self.namespace) if event["reason"] == reason]

    def revisions(self) -> list[str]:
        found = self.server.list("AllocationRevision", self.namespace)
        return [obj["metadata"]["name"] for obj in sorted(found, key=lambda obj: obj["spec"]["number"])]

    @contextmanager
    def gpu_log(self) -> Iterator[list[Fraction]]:
        """GPUs of all pods that have not ended, looked at all the time while the block lasts."""
        seen: list[Fraction] = [gpus_of(self.pods())]
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch_gpus, args=(seen, stop), daemon=True)
        watcher.start()
        try:
            yield seen
        finally:
            stop.set()
            watcher.join()

    def _watch_gpus(self, seen: list[Fraction], stop: threading.Event) -> None:
        with Server(self.server.kubeconfig) as own:
            while not stop.wait(0.03):
                seen.append(gpus_of(own.list("Pod", self.namespace, "steelyard.dev/job")))


def gpus_of(pods: list[Object]) -> Fraction:
    held = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return sum(
        (
            parse_quantity(pod["metadata"]["annotations"].get("steelyard.dev/gpus", "0"))
            for pod in held
            if "annotations" in pod["metadata"]
        ),
        Fraction(0),
    )


def by_hand(number: int, before: Object, after: Object) -> Object:
    """A revision as a user writes one, to hold an allocation."""
    return {
        "apiVersion": "steelyard.dev/v1alpha1",
        "kind": "AllocationRevision",
        "metadata": {"name": f"calculator-{number}", "labels": {"steelyard.dev/job": "calculator"}},
        "spec": {
            "number": number,
            "parent": f"calculator-{number - 1}",
            "origin": "User",
            "allocation": {"before": before, "after": after},
            "reason": "moved by hand",
        },
    }
