"""Jobs that share a pool in a cluster in memory, and operators that can be killed and started again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from steelyard.controller import Dependencies, Job
from steelyard.pools.loop import Pool, PoolDependencies
from steelyard.telemetry import Telemetry
from tests.builders import job_manifest, pool_manifest
from tests.fakes import FakeCluster, NoMetrics
from tests.unit.operator.operating import IMAGES

SMALL: dict[str, Any] = {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 1}}}, "budget.gpus": 8}
"""Three GPUs, which is also the least it runs on at whole GPUs; two at slices."""
BIG: dict[str, Any] = {"scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 6}}}, "budget.gpus": 8}
"""All eight GPUs."""


class Sharing:
    """Several jobs, one pool of eight GPUs, one operator."""

    def __init__(self, pool: Mapping[str, Any] | None = None) -> None:
        self.cluster = FakeCluster()
        self.names: list[str] = []
        self.cluster.create(pool_manifest(pool))
        self.restart()

    def copy(self) -> Sharing:
        """The same cluster once more, with an operator without memory: to come here again costs many rounds."""
        other = Sharing()
        other.cluster, other.names = deepcopy(self.cluster), [*self.names]
        other.restart()
        return other

    def add(self, name: str, queue: str, changes: Mapping[str, Any], **more: Any) -> None:
        asked = {"pool": {"name": "shared", "queue": queue}}
        self.names.append(name)
        self.cluster.now += 1
        self.cluster.create(job_manifest({**asked, **changes, **more}, name=name))

    def restart(self, seen: Any = None) -> None:
        """An operator without memory; it sees the cluster through `seen`."""
        seen = seen or self.cluster
        self.cluster.dies_after = None
        self.cluster.store.acknowledged.clear()
        self.telemetry = Telemetry()
        self.deps = Dependencies(seen, NoMetrics(), IMAGES, self.telemetry, lambda: self.cluster.now)
        self.jobs: dict[str, Job] = {}
        pools = PoolDependencies(seen, self.telemetry, lambda: self.cluster.now, self.deps.measured)
        self.pool = Pool("shared", pools)

    async def run(self, rounds: int = 8, seconds: float = 1.0, *, settles: bool = True) -> None:
        """Rounds of the pool and of every job, in turn, with a settled cluster between them."""
        for _ in range(rounds):
            self.cluster.now += seconds
            await self.pool.tick(self.cluster.now)
            for name in self.names:
                await self.tick(name)
            if settles:
                self.cluster.settle()

    async def drain(self, rounds: int = 6) -> None:
        """Rounds in which pods take a while to stop."""
        self.cluster.drains = True
        for _ in range(rounds):
            await self.run(2)
            self.cluster.let_go()

    async def tick(self, name: str) -> float | None:
        job = self.jobs.setdefault(name, Job(("default", name), self.deps))
        return await job.tick(self.cluster.now)

    def change_spec(self, name: str, change: Mapping[str, Any]) -> None:
        self.cluster.edit("AgenticRLJob", name, {"spec": dict(change)}, by="user", merge=False)

    def change_pool(self, change: Mapping[str, Any]) -> None:
        self.cluster.edit("RLPool", "shared", {"spec": dict(change)}, by="admin", merge=False)

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.get("AgenticRLJob", name).get("status", {})
        return status

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """Status, reason and message."""
        found = next(one for one in self.status(name)["conditions"] if one["type"] == kind)
        return found["status"], found["reason"], found.get("message", "")

    @property
    def pool_status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.get("RLPool", "shared").get("status", {})
        return status

    @property
    def grants(self) -> dict[str, str]:
        """Job -> GPUs."""
        return {row["job"]: row["gpus"] for row in self.pool_status.get("grants", [])}

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.pool_status["grants"] if row["job"] == name)

    def gpus(self, name: str) -> float:
        """GPUs of all pods of a job that have not ended, draining ones included."""
        mine = [pod for pod in self.cluster.pods() if pod["metadata"]["labels"]["steelyard.dev/job"] == name]
        texts = [pod["metadata"].get("annotations", {}).get("steelyard.dev/gpus", "0") for pod in mine]
        return sum(float(text[:-1]) / 1000 if text.endswith("m") else float(text) for text in texts)
