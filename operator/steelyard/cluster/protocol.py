"""The seam to Kubernetes: what the controller may ask of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from steelyard.api import AgenticRLJob, AllocationRevision, AllocationRevisionStatus, JobStatus, PoolStatus
from steelyard.balance.types import Instant
from steelyard.children.common import Manifest
from steelyard.cluster.changes import Change
from steelyard.cluster.pool_records import Pool
from steelyard.cluster.records import JobKey
from steelyard.cluster.view import PoolView, View


class Cluster(Protocol):
    """All reading and writing of the controller. Writes raise ClusterError; they are safe to repeat."""

    def view(self, key: JobKey) -> View | None:
        """The job as it is known now; None when it does not exist. Costs nothing: no request is made."""
        ...

    async def record(self, job: AgenticRLJob, revision: AllocationRevision) -> AllocationRevision:
        """Add an entry to the ledger. If its number is taken, the entry that holds it is returned instead."""
        ...

    async def annotate(self, job: AgenticRLJob, updates: Mapping[str, AllocationRevisionStatus]) -> None:
        """Write the status of ledger entries, by name."""
        ...

    async def apply(self, view: View, wanted: Sequence[Manifest], costs: Mapping[str, int]) -> list[Change]:
        """Make the job's children what is wanted, in the fewest writes; returns those that changed something.

        `costs` says by pod name how much each ready pod has to lose, for the choice of victims.
        """
        ...

    async def set_status(self, view: View, status: JobStatus) -> None:
        """Write the job's status."""
        ...

    async def why_stuck(self, view: View, now: Instant) -> dict[str, str]:
        """Pods whose containers could not even be created for a while -> what the kubelet says about it."""
        ...

    async def event(self, view: View, kind: str, reason: str, message: str) -> None:
        """Tell whoever reads the job's events. `kind` is Normal or Warning. Never raises."""
        ...

    def pool_view(self, name: str) -> PoolView | None:
        """The pool and its jobs as they are known now; None when it does not exist. No request is made.

        Raises Unavailable while not all jobs are known.
        """
        ...

    async def set_pool_status(self, pool: Pool, status: PoolStatus) -> None:
        """Write the pool's status; jobs whose row changed are woken."""
        ...

    async def pool_event(self, pool: Pool, kind: str, reason: str, message: str) -> None:
        """Tell whoever reads the pool's events. Never raises."""
        ...
