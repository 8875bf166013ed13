"""What the operator remembers of a pool, read once when it arrives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.api import InvalidResource, ObjectMeta, PoolGrant, PoolStatus, RLPool
from steelyard.cluster.records import JobKey


@dataclass(frozen=True, slots=True)
class Lent:
    """What a pool lends one job: a row of its status. Instants are unix seconds."""

    queue: str
    gpus: Fraction
    """GPUs the job may hold; 0 while it waits."""
    borrowed: Fraction
    """Part of them that others may take back."""
    used: Fraction
    """GPUs of its bound pods when the row was written."""
    since: float
    """Since when it has had its smallest allocation, or has waited for it."""
    waits: bool = False
    waited_seconds: float = 0.0
    """How long it had waited then, less how long it was served."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as the API server has it. `resource` is None when its spec breaks a rule; `broken` then says which."""

    name: str
    metadata: ObjectMeta
    status: PoolStatus
    lent: Mapping[JobKey, Lent]
    resource: RLPool | None
    broken: str = ""


def pool(obj: Mapping[str, Any]) -> Pool:
    """As for jobs: a status that nobody can read any more is empty, and is made again from what the jobs hold."""
    metadata = ObjectMeta.model_validate(obj["metadata"])
    try:
        status = PoolStatus.model_validate(obj.get("status") or {}, extra="ignore")
    except ValueError:
        status = PoolStatus()
    lent = {(row.namespace, row.job): _lent(row) for row in status.grants}
    try:
        resource = RLPool.from_cluster({**obj, "status": {}})
    except InvalidResource as error:
        return Pool(metadata.name, metadata, status, lent, None, str(error))
    return Pool(metadata.name, metadata, status, lent, resource)


def _lent(row: PoolGrant) -> Lent:
    since = row.waiting_since or row.since
    return Lent(
        queue=row.queue,
        gpus=Fraction(row.gpus),
        borrowed=Fraction(row.borrowed or 0),
        used=Fraction(row.used),
        since=since.timestamp() if since else 0.0,
        waits=row.waiting_since is not None,
        waited_seconds=float(row.waited_seconds or 0),
        reason=row.reason or "",
    )
