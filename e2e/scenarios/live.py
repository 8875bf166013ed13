"""A job that runs on the cluster, as the scenarios see it: its pods, its progress, its ledger, its ids."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from e2e.checker import Findings, check
from e2e.demo import claims
from e2e.faults import main_process
from e2e.kube import Kube, Object, condition, wait_for

NAMESPACE = "default"
READY_SECONDS = 300
STEP_SECONDS = 570
"""Five times what the longest wait took: 114 s for the first 60 steps, with every capacity move on the way."""
GIVEN = "NVIDIA_VISIBLE_DEVICES"
TRIAL_SECONDS = 600
STEP = 'max(steelyard_policy_version{steelyard_job="%s",stage="trainer"})'


def devices(pods: Iterable[Object]) -> list[str]:
    """The GPUs that the device plug-in gave to the workers among these pods that run at this moment."""
    found = []
    for pod in pods:
        try:
            variables = Path(f"/proc/{main_process(pod, 'worker')}/environ").read_text().split("\0")
        except (ProcessLookupError, FileNotFoundError):
            continue
        found += [value for name, _, value in (one.partition("=") for one in variables) if name == GIVEN]
    return found


class LiveJob:
    """One AgenticRLJob of the default namespace."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube, self.name = kube, name
        self.prometheus = f"http://{kube.address('monitoring', 'prometheus')}:9090"

    @property
    def resource(self) -> Object:
        found = self.kube.get("AgenticRLJob", NAMESPACE, self.name)
        assert found is not None, f"no job {self.name}"
        return found

    def change(self, **spec: object) -> None:
        """Edit the job as its user would."""
        self.kube.patch("AgenticRLJob", NAMESPACE, self.name, {"spec": spec})

    def condition(self, kind: str) -> Object:
        return condition(self.resource, kind)

    def pods(self, stage: str) -> list[Object]:
        """Running pods of a stage (or the bus) that nobody has told to stop."""
        selector = f"steelyard.dev/job={self.name},steelyard.dev/stage={stage}"
        found = self.kube.list("Pod", NAMESPACE, selector)
        return [p for p in found if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]]

    def ready(self, stage: str) -> list[Object]:
        return [pod for pod in self.pods(stage) if condition(pod, "Ready").get("status") == "True"]

    def all_pods(self) -> list[Object]:
        return self.kube.list("Pod", NAMESPACE, f"steelyard.dev/job={self.name}")

    def revisions(self) -> list[Object]:
        """The ledger, oldest first."""
        mine = self.kube.list("AllocationRevision", NAMESPACE, f"steelyard.dev/job={self.name}")
        return sorted(mine, key=lambda revision: int(revision["spec"]["number"]))

    def try_allocation(self, after: Object, reason: str) -> Object:
        """Write a revision as a user would who wants it judged, and wait for the verdict."""
        number = self.write(after, reason, timedelta())

        def judged() -> Object | None:
            revision = next(r for r in self.revisions() if r["spec"]["number"] == number)
            return revision if (revision.get("status") or {}).get("verdict") else None

        return wait_for(f"a verdict on revision {number}", judged, TRIAL_SECONDS)

    def write(self, after: Object, reason: str, hold: timedelta) -> int:
        """Write a revision as a user would, to be held for so long; its number."""
        number = int(self.revisions()[-1]["spec"]["number"]) + 1
        written = {
            "apiVersion": "steelyard.dev/v1alpha1",
            "kind": "AllocationRevision",
            "metadata": {"name": f"{self.name}-{number}", "labels": {"steelyard.dev/job": self.name}},
            "spec": {
                "number": number,
                "origin": "User",
                "expiresAt": (datetime.now(UTC) + hold).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "allocation": {"after": after},
                "reason": reason,
            },
        }
        self.kube.apply([written], NAMESPACE)
        return number

    def step(self) -> int | None:
        """Newest published policy version; None while nobody says."""
        answer = httpx.get(
            f"{self.prometheus}/api/v1/query", params={"query": STEP % self.name}, timeout=5, trust_env=False
        )
        rows = answer.raise_for_status().json()["data"]["result"]
        return int(float(rows[0]["value"][1])) if rows else None

    def wait_step(self, step: int) -> int:
        """Until the trainer has published `step` or a later one."""

        def reached() -> int | None:
            now = self.step()
            return now if now is not None and now >= step else None

        return wait_for(f"step {step} of {self.name}", reached, STEP_SECONDS)

    def wait_progress(self, steps: int) -> None:
        """Until `steps` more steps are trained than now."""
        now = wait_for("a trainer that says its step", lambda: (self.step() or 0) + 1, STEP_SECONDS) - 1
        self.wait_step(now + steps)

    @property
    def checkpoints(self) -> Path:
        return claims.folder(self.kube, NAMESPACE, f"{self.name}-checkpoints")

    def findings(self) -> Findings:
        """What the separate checker counts at this moment."""
        bus = self.kube.address(NAMESPACE, f"{self.name}-bus")
        return asyncio.run(check(f"nats://{bus}:4222", self.name, self.checkpoints))
