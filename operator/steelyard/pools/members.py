"""Pure: everybody who draws on a pool, or still holds something of it, as one round sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from steelyard.balance.bounds import user_hold
from steelyard.balance.fleet import Curve
from steelyard.balance.types import Instant, Seen
from steelyard.cluster.pool_records import Lent
from steelyard.cluster.quota import refusal_of, signed
from steelyard.cluster.records import JobKey
from steelyard.cluster.view import PoolView, View, gpus_bound, gpus_held

NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Member:
    """One job."""

    key: JobKey
    queue: str
    row: Lent | None
    """What the pool lends it so far."""
    granted: Fraction
    """GPUs it may hold so far: the row's, or what it signed for when the pool has forgotten its rows."""
    reserved: Fraction
    """What counts against the pool: the greatest of granted, signed for and held, draining pods included."""
    used: Fraction
    """GPUs of its bound pods."""
    created: Instant
    curve: Curve | None = None
    """What it would do with how many GPUs; None when it asks for none."""
    why_not: str = ""
    """Why it asks for none, or may not."""
    stays: bool = False
    """Nobody can tell what it asks for, so it keeps exactly what it has."""

    @property
    def least(self) -> Fraction:
        """GPUs of its smallest allocation."""
        return Fraction(round(float(self.curve.gpus[0]) * 1000), 1000) if self.curve else NOTHING

    @property
    def name(self) -> str:
        return "/".join(self.key)


def members(view: PoolView, curves: Mapping[JobKey, Curve]) -> list[Member]:
    """All of a pool; jobs that neither ask for nor hold anything are left out."""
    found = [*_jobs(view, curves), *_leftovers(view)]
    return [one for one in found if one.curve is not None or one.reserved > 0]


def silence(view: View) -> str:
    """Why a job asks its pool for nothing; empty when it does ask."""
    job = view.job
    if job.deleting:
        return "is being deleted"
    if job.resource is None:
        return "has an invalid spec and keeps what it has"
    if any((said := job.status.condition(kind)) and said.status == "True" for kind in ("Complete", "Failed")):
        return "has ended"
    if job.resource.spec.suspend:
        return "is suspended"
    refusal = refusal_of(view.pool, job.resource) if view.pool else None
    return refusal[1] if refusal else ""


def fixed_gpus(view: View, now: Instant) -> Fraction | None:
    """GPUs of a job whose allocation is not the operator's to choose: fixed, pinned, held or only observed."""
    assert view.job.resource is not None
    spec, active = view.job.resource.spec, Seen(view.job.resource, view.revisions).active
    if spec.scaling.mode == "Fixed":
        return spec.initial_allocation.gpus(spec.gpu_prices)
    if spec.scaling.pin is not None:
        active = next((one for one in view.revisions if one.metadata.name == spec.scaling.pin), active)
    elif spec.scaling.mode == "Dynamic" and not (active and user_hold(active, now)):
        return None
    allocation = active.spec.allocation.after if active else spec.initial_allocation
    return allocation.gpus(spec.gpu_prices)


def _jobs(view: PoolView, curves: Mapping[JobKey, Curve]) -> Iterator[Member]:
    for key, one in view.jobs.items():
        row, name = view.pool.lent.get(key), signed(one.job)
        granted = row.gpus if row else name
        created = one.job.metadata.creation_timestamp
        yield Member(
            key,
            queue=one.job.pool.queue if one.job.pool else "",
            row=row,
            granted=granted,
            reserved=max(granted, name, gpus_held(one.pods)),
            used=one.gpus_used(),
            created=created.timestamp() if created else 0.0,
            curve=curves.get(key),
            why_not="" if key in curves else silence(one),
            stays=one.job.resource is None and not one.job.deleting,
        )


def _leftovers(view: PoolView) -> Iterator[Member]:
    """Jobs that are gone, as long as their pods are not."""
    for key, pods in view.left.items():
        held, row = gpus_held(pods), view.pool.lent[key]
        yield Member(key, row.queue, row, held, held, gpus_bound(pods), row.since, why_not="is deleted", stays=True)
