"""Pure: how many GPUs a job may hold now: the least of its budget, what its pool grants and what it has signed for.

A job signs for GPUs in its status (`status.gpus.budget`) before it uses them, and takes its name off only when no
controller can make a pod of the old number any more. The pool counts what is signed for, so no GPU is lent twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from steelyard.api import AgenticRLJob
from steelyard.balance.types import Fact
from steelyard.cluster.pool_records import Lent, Pool
from steelyard.cluster.records import Job
from steelyard.cluster.view import View, workloads

NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Quota:
    """What the pool of a job says about it."""

    granted: Fraction
    """GPUs it may sign for."""
    reserved: Fact
    """For the condition QuotaReserved: whether it may hold GPUs, else who has them."""
    refused: bool = False
    """Whether waiting does not help: an admin of the pool must act, or the job's author."""


def quota(view: View, job: AgenticRLJob) -> Quota | None:
    """None for a job that names no pool. Where the pool is silent, a job keeps what it signed for and cannot grow."""
    if (asked := job.spec.pool) is None:
        return None
    kept, where = signed(view.job), f"spec.pool.name: {asked.name}"
    if not view.pooling:
        why = "this operator serves single namespaces and therefore shares no pools"
        return _refused(kept, "PoolsOff", f"{where}: {why}{_no_more(kept)}")
    if view.pool is None:
        return _refused(kept, "PoolNotFound", f"{where}: there is no such RLPool{_no_more(kept)}")
    row = view.pool.lent.get(view.job.key)
    granted = row.gpus if row else kept
    if view.pool.resource is None:
        why = f"the RLPool breaks a rule: {view.pool.broken}"
        return _refused(min(granted, kept), "PoolInvalid", f"{where}: {why}{_no_more(kept)}")
    if (refusal := refusal_of(view.pool, job)) is not None:
        return _refused(granted, *refusal)
    return Quota(granted, _standing(asked.name, job, row))


def refusal_of(pool: Pool, job: AgenticRLJob) -> tuple[str, str] | None:
    """Why a pool's queue does not admit a job: the reason as one word and as field, value and rule; None if it does."""
    asked, namespace = job.spec.pool, job.metadata.namespace
    if asked is None or pool.resource is None:
        return None
    where = f"spec.pool.queue: {asked.queue}"
    queue = pool.resource.spec.queue(asked.queue)
    if queue is None:
        return "QueueNotFound", f"{where}: RLPool {pool.name} has no such queue"
    if namespace not in queue.namespaces:
        return "NamespaceNotListed", f"{where}: this queue of RLPool {pool.name} does not list namespace {namespace}"
    return None


def _standing(pool: str, job: AgenticRLJob, row: Lent | None) -> Fact:
    if row is None:
        return Fact(False, "NotShared", f"RLPool {pool} has not looked at the job yet")
    if row.gpus == 0 and job.spec.least_gpus > 0:
        since = datetime.fromtimestamp(int(row.since), UTC).isoformat()
        return Fact(False, "WaitingForGpus", f"RLPool {pool}, queue {row.queue}, since {since}: {row.reason}")
    lent = f", {float(row.borrowed):g} of them borrowed" if row.borrowed else ""
    return Fact(True, "Granted", f"RLPool {pool}, queue {row.queue}: {gpus(row.gpus)} granted{lent}")


def signed(job: Job) -> Fraction:
    """GPUs the job has signed for: the most it may be acting on."""
    return Fraction(job.status.gpus.budget) if job.status.gpus else NOTHING


@dataclass(frozen=True, slots=True)
class Means:
    """What a job has to work with this time."""

    budget: Fraction
    """GPUs it may hold at this moment."""
    quota: Quota | None = None
    """None for a job that no pool binds."""
    waits: bool = False
    """Whether it would run and has no GPUs to do so."""
    unsigned: Fraction | None = None
    """GPUs to sign for before anything else, when its pool grants more than it signed for."""


def means(view: View, job: AgenticRLJob, *, asks: bool) -> Means:
    """`asks` is False for a job that is suspended or has ended: it wants nothing of its pool."""
    said = quota(view, job)
    if said is None:
        return Means(job.spec.budget.gpus)
    if not asks:
        return Means(NOTHING, said)
    allowed, name = min(job.spec.budget.gpus, said.granted), signed(view.job)
    budget = min(allowed, name)
    waits = allowed == 0 < job.spec.least_gpus
    return Means(budget, said, waits, allowed if allowed > name else None)


def to_sign(view: View, job: AgenticRLJob, budget: Fraction) -> Fraction:
    """What a job that now acts on `budget` must be signed for: more while pods of an older number may still appear."""
    prices, coming = job.spec.gpu_prices, NOTHING
    for (stage, profile), workload in workloads(view, job).items():
        child = view.workload((stage, profile))
        if not prices[stage][profile] or (child and child.outcome):
            continue
        if not workload.caught_up:
            return max(budget, signed(view.job))
        coming += max(workload.desired, workload.created) * prices[stage][profile]
    return budget if coming <= budget else max(budget, signed(view.job))


def gpus(n: Fraction) -> str:
    return f"{float(n):g} GPU{'' if n == 1 else 's'}"


def _refused(granted: Fraction, reason: str, message: str) -> Quota:
    return Quota(granted, Fact(False, reason, message), refused=True)


def _no_more(kept: Fraction) -> str:
    return f". The job keeps its {gpus(kept)} and gets no more" if kept else ""
