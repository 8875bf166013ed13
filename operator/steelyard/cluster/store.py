"""The operator's memory of the cluster: records per job, and a call when something about a job changed.

Informers, kopf's job events and the answers to our own writes all end here; resourceVersions decide who is newer.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from steelyard.api import InvalidResource
from steelyard.api.names import LABEL_JOB
from steelyard.cluster import kinds, pool_records, records, resource_quota
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.pool_records import Pool
from steelyard.cluster.records import Child, Job, JobKey, Pod, Revision
from steelyard.cluster.resource_quota import Left, least
from steelyard.cluster.view import PoolView, View

log = logging.getLogger(__name__)


GRAVES = 4096
"""Removed objects to remember: long enough for answers to our own writes that are still under way."""


FOR_GOOD = sys.maxsize
"""The version of a removal that nothing with this uid outlives."""

R = TypeVar("R", Child, Pod, Revision)


@dataclass
class _Belongings:
    children: dict[tuple[str, str], Child] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    revisions: dict[str, Revision] = field(default_factory=dict)


class Store:
    """Holds records; decides nothing."""

    def __init__(self) -> None:
        self.on_change: Callable[[JobKey], None] = _nobody
        self.on_pool_change: Callable[[str], None] = _nobody
        self.pooling = True
        """Whether this operator shares pools."""
        self._pools: dict[str, Pool] = {}
        self._jobs: dict[JobKey, Job] = {}
        self._belongings: dict[JobKey, _Belongings] = {}
        self._autoscalers: dict[tuple[str, str], str] = {}
        self._quotas: dict[tuple[str, str], Left] = {}
        self._owners: dict[str, JobKey] = {}
        self._buried: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        """uid of a child -> the edition our last write left it at."""

    @property
    def jobs(self) -> frozenset[JobKey]:
        return frozenset(self._jobs)

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(self._pools)

    def job(self, key: JobKey) -> Job | None:
        return self._jobs.get(key)

    def view(self, key: JobKey, *, monitored: bool) -> View | None:
        """Everything about one job at this moment, or None when it is gone."""
        if (job := self._jobs.get(key)) is None:
            return None
        mine = self._belongings.get(key) or _Belongings()
        return View(
            job=job,
            revisions=tuple(
                sorted(
                    (entry.resource for entry in mine.revisions.values() if entry.owner in (None, job.metadata.uid)),
                    key=lambda revision: revision.spec.number,
                )
            ),
            children=dict(mine.children),
            pods=tuple(mine.pods.values()),
            autoscaled=frozenset(target for (namespace, _), target in self._autoscalers.items() if namespace == key[0]),
            monitored=monitored,
            left=least(left for (namespace, _), left in self._quotas.items() if namespace == key[0]),
            pool=self._pools.get(job.pool.name) if job.pool else None,
            pooling=self.pooling,
        )

    def is_unowned(self, key: JobKey, revision: str) -> bool:
        """Whether nobody owns this entry of the job's ledger yet: it was written by hand."""
        mine = self._belongings.get(key) or _Belongings()
        return revision in mine.revisions and mine.revisions[revision].owner is None

    def pool_view(self, name: str, *, monitored: bool) -> PoolView | None:
        """One pool and all its jobs at this moment, or None when it is gone."""
        if (pool := self._pools.get(name)) is None:
            return None
        mine = [key for key, job in self._jobs.items() if _draws_on(job, name)]
        views = {key: view for key in mine if (view := self.view(key, monitored=monitored))}
        left = {key: self._pods_left(key) for key in pool.lent if key not in views}
        return PoolView(pool, views, left)

    def _pods_left(self, key: JobKey) -> tuple[Pod, ...]:
        """Pods of a job that is gone; not those of a successor of its name that is none of the pool's."""
        pods = self._belongings[key].pods.values() if key in self._belongings else ()
        successor = self._jobs.get(key)
        born = successor.metadata.creation_timestamp if successor else None
        return tuple(pod for pod in pods if born is None or pod.created < born.timestamp())

    def put(self, kind: Kind, obj: Object) -> None:
        """Take what is newer than what we have. What was removed comes back only in a newer version."""
        metadata = obj["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        if self.is_buried(metadata):
            return
        if kind is kinds.JOB:
            self._put_job(obj)
        elif kind is kinds.POOL:
            self._put_pool(obj)
        elif kind is kinds.AUTOSCALER:
            self._put_autoscaler(namespace, name, records.autoscaled_deployment(obj))
        elif kind is kinds.QUOTA:
            self._quotas[namespace, name] = resource_quota.left_by(obj)  # it changes with every pod: worth no call
        elif owner := (metadata.get("labels") or {}).get(LABEL_JOB):
            self._put_belonging((namespace, owner), kind, obj)

    def acknowledge(self, child: Object) -> None:
        """This is how our last write left it: another edition is somebody else's."""
        metadata = child["metadata"]
        if not self.is_buried(metadata):
            self.acknowledged[metadata["uid"]] = records.edition(metadata)

    def remove(self, kind: Kind, namespace: str, name: str, uid: str, version: int) -> None:
        """It was deleted, or is none of ours any more, in this version of the collection."""
        self._bury(uid, version)
        if kind is kinds.AUTOSCALER:
            self._put_autoscaler(namespace, name, None)
            return
        if kind is kinds.QUOTA:
            self._quotas.pop((namespace, name), None)
            return
        if kind is kinds.JOB:
            key = namespace, name
            if (job := self._jobs.get(key)) and job.metadata.uid == uid:
                del self._jobs[key]
                self._tell(key)
            return
        if kind is kinds.POOL:
            if (pool := self._pools.get(name)) and pool.metadata.uid == uid:
                del self._pools[name]
                self._tell_jobs_of(name)
            return
        if uid in self._owners:
            self._drop_belonging(kind, name, uid)

    def is_buried(self, metadata: Mapping[str, Any]) -> bool:
        """Whether this is an object as it was before it was removed."""
        return int(metadata["resourceVersion"]) <= self._buried.get(metadata["uid"], -1)

    def _bury(self, uid: str, version: int) -> None:
        self.acknowledged.pop(uid, None)
        self._buried[uid] = version
        if len(self._buried) > GRAVES:
            del self._buried[next(iter(self._buried))]

    def _put_job(self, obj: Object) -> None:
        job = records.job(obj)
        old = self._jobs.get(job.key)
        if old and int(old.metadata.resource_version) >= int(job.metadata.resource_version):
            return
        self._jobs[job.key] = job
        if old is None or _asks(old) != _asks(job):  # our own status writes come back too
            self._tell(job.key)
        elif job.pool and old.status.gpus != job.status.gpus:
            self.on_pool_change(job.pool.name)  # it may have signed for other GPUs

    def _put_pool(self, obj: Object) -> None:
        pool = pool_records.pool(obj)
        old = self._pools.get(pool.name)
        if old and int(old.metadata.resource_version) >= int(pool.metadata.resource_version):
            return
        self._pools[pool.name] = pool
        if old is None or old.metadata.generation != pool.metadata.generation:
            self._tell_jobs_of(pool.name)
            return
        for key in old.lent.keys() | pool.lent.keys():
            before, after = old.lent.get(key), pool.lent.get(key)
            if key in self._jobs and (before is None or after is None or before.gpus != after.gpus):
                self.on_change(key)

    def _tell(self, key: JobKey) -> None:
        """Something about a job changed, which concerns its pool too; what it leaves behind, whoever lent to it."""
        self.on_change(key)
        if job := self._jobs.get(key):
            pools = [job.pool.name] if job.pool else []
        else:
            pools = [name for name, pool in self._pools.items() if key in pool.lent]
        for name in pools:
            self.on_pool_change(name)

    def _tell_jobs_of(self, name: str) -> None:
        self.on_pool_change(name)
        for key, job in self._jobs.items():
            if _draws_on(job, name):
                self.on_change(key)

    def _put_autoscaler(self, namespace: str, name: str, target: str | None) -> None:
        old = self._autoscalers.pop((namespace, name), None)
        if target is not None:
            self._autoscalers[namespace, name] = target
        if old == target:
            return
        for key, mine in self._belongings.items():
            if key[0] == namespace and any(("Deployment", found) in mine.children for found in (old, target) if found):
                self.on_change(key)

    def _drop_belonging(self, kind: Kind, name: str, uid: str) -> None:
        owner = self._owners.pop(uid)
        mine = self._belongings[owner]
        if kind is kinds.POD:
            _drop(mine.pods, name, uid)
        elif kind is kinds.REVISION:
            _drop(mine.revisions, name, uid)
        else:
            _drop(mine.children, (kind.name, name), uid)
        if not (mine.pods or mine.revisions or mine.children):
            del self._belongings[owner]
        self._tell(owner)

    def _put_belonging(self, owner: JobKey, kind: Kind, obj: Object) -> None:
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        if self._owners.get(uid, owner) != owner:
            self._drop_belonging(kind, name, uid)  # its label names another job now
        mine = self._belongings.setdefault(owner, _Belongings())
        if kind is kinds.POD:
            changed = _keep(mine.pods, name, records.pod(obj))
        elif kind is kinds.REVISION:
            try:
                changed = _keep(mine.revisions, name, records.revision(obj))
            except InvalidResource as error:
                log.warning("ignoring the revision %s of %s/%s: %s", name, *owner, error)
                return
        else:
            found = records.child(kind.name, obj)
            changed = _keep(mine.children, (found.kind, found.name), found)
        self._owners[uid] = owner
        if changed:
            self._tell(owner)


def _nobody(_: object) -> None:
    """Until somebody wants to know."""


def _draws_on(job: Job, pool: str) -> bool:
    return job.pool is not None and job.pool.name == pool


def _asks(job: Job) -> tuple[str, int, bool]:
    return job.metadata.uid, job.metadata.generation, job.deleting


K = TypeVar("K")


def _keep(into: dict[K, R], key: K, new: R) -> bool:
    """Whether anything but the version changed, so that it is worth a look."""
    old = into.get(key)
    if old and old.uid == new.uid and old.resource_version >= new.resource_version:
        return False
    into[key] = new
    return old is None or replace(new, resource_version=old.resource_version) != old


def _drop(of: dict[K, R], key: K, uid: str) -> None:
    if (old := of.get(key)) and old.uid == uid:
        del of[key]
