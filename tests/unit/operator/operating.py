"""Words for tests of the controller: one job in a cluster in memory, its operator, and what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any

from steelyard.api import Stage
from steelyard.children.common import Images
from steelyard.controller import Dependencies, Job
from steelyard.telemetry import Telemetry
from tests.builders import job_manifest
from tests.fakes import FakeCluster, NoMetrics

IMAGES = Images({**{stage.value: f"example/{stage.value}:1" for stage in Stage}, "nats": "example/nats:1"})
KEY = "default", "calculator"
FIXED = {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 2}, "environment": {"default": 1}}}}
RUNNING = {
    "calculator-bus": 1,
    "calculator-environment": 1,
    "calculator-reward-server-slice": 0,
    "calculator-reward-server-whole": 1,
    "calculator-sampler-slice": 0,
    "calculator-sampler-whole": 2,
    "calculator-trainer-whole": 1,
}


class Operated:
    """One job, its cluster and an operator that can be killed and started again."""

    def __init__(self, changes: Mapping[str, Any] | None = None, *, images: Images = IMAGES) -> None:
        self.cluster = FakeCluster()
        self.cluster.create(job_manifest(changes))
        self.images = images
        self.restart()

    def copy(self) -> Operated:
        """The same job in a cluster of its own, under an operator without memory."""
        clone = copy(self)
        clone.cluster = deepcopy(self.cluster)
        clone.restart()
        return clone

    def restart(self) -> None:
        """An operator without memory."""
        self.cluster.dies_after = None
        self.cluster.store.acknowledged.clear()
        deps = Dependencies(self.cluster, NoMetrics(), self.images, Telemetry(), lambda: self.cluster.now)
        self.job = Job(KEY, deps)

    async def tick(self, seconds: float = 1.0) -> float | None:
        self.cluster.now += seconds
        return await self.job.tick(self.cluster.now)

    async def settle(self) -> None:
        """Ticks until the operator has nothing more to do, with a settled cluster between them."""
        idle = 0
        for _ in range(30):
            before = len(self.cluster.writes)
            await self.tick()
            self.cluster.settle()
            idle = idle + 1 if len(self.cluster.writes) == before else 0
            if idle == 2:
                return
        raise AssertionError(f"it never rests: {self.cluster.writes[-5:]}")

    async def run(self, ticks: int, seconds: float = 1.0) -> None:
        """Ticks with a settled cluster between them."""
        for _ in range(ticks):
            await self.tick(seconds)
            self.cluster.settle()
        await self.tick(seconds)

    def change_spec(self, change: Mapping[str, Any]) -> None:
        """Replace top-level fields of the spec."""
        self.cluster.edit("AgenticRLJob", "calculator", {"spec": dict(change)}, by="user", merge=False)

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message."""
        found = next(c for c in self.status["conditions"] if c["type"] == kind)
        return found["status"], found["reason"], found.get("message", "")

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.get("AgenticRLJob", "calculator").get("status", {})
        return status


def fixed(**stages: dict[str, int]) -> dict[str, Any]:
    """A change of the spec to this allocation; stages are named as in the resource."""
    return {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 2}, "environment": {"default": 1}, **stages}}}


def written(operated: Operated) -> list[str]:
    """Writes to children; the ledger and the status have their own rhythm."""
    return [what for what in operated.cluster.writes if what.split()[0] in ("apply", "scale", "delete")]
