"""The controller's cluster: informers fill the store, the client writes, the Lease fences."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from steelyard.api import AgenticRLJob, AllocationRevision, AllocationRevisionStatus, JobStatus, PoolStatus
from steelyard.api.names import LABEL_JOB
from steelyard.balance.types import Instant
from steelyard.children.common import Manifest, job_labels, owner_reference
from steelyard.cluster import kinds
from steelyard.cluster.apply import Applier
from steelyard.cluster.audit import Audit
from steelyard.cluster.changes import Change
from steelyard.cluster.client import Client, Lane, Patch
from steelyard.cluster.errors import ClusterError, Conflict, NotFound, Refused, Unavailable
from steelyard.cluster.events import event_about
from steelyard.cluster.informer import Informer
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.ledger import prunable
from steelyard.cluster.pool_records import Pool
from steelyard.cluster.records import JobKey, Pod
from steelyard.cluster.store import FOR_GOOD, Store
from steelyard.cluster.view import PoolView, View

log = logging.getLogger(__name__)

DEAF_SECONDS = 180.0
"""Bookmarks come every minute; a watch that heard nothing for three is dead."""
RETRY_SECONDS = 1.0
STUCK_SECONDS = 20.0
"""Images are pulled meanwhile, which says nothing; a volume that cannot be mounted says so within seconds."""
STUCK_AT_A_TIME = 5
"""One reason is enough for a condition."""
OPTIONAL = frozenset({kinds.POD_MONITOR, kinds.AUTOSCALER, kinds.POOL, kinds.QUOTA})


class KubernetesCluster:
    """See `steelyard.cluster.Cluster` for what each call promises."""

    def __init__(
        self,
        client: Client,
        namespaces: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        *,
        pod_monitors: bool = True,
    ) -> None:
        self.store = Store()
        self._client, self._clock = client, clock
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._pod_monitors = pod_monitors
        self._informers = [self._informer(kind, ns) for kind in _watched() for ns in self._namespaces]
        self.store.pooling = not namespaces  # pools have no namespace: an operator of single ones may not read them
        if self.store.pooling:
            self._informers.append(self._informer(kinds.POOL, None))
        self._jobs_read = False
        self._applier = Applier(client, self.store, clock)
        self.audit = Audit(client, self.store, self._namespaces)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.kind.name}")
            group.create_task(self.audit.run(), name="audit of jobs")

    async def synced(self) -> None:
        """Return when the whole state of all jobs and their children has been read."""
        for informer in self._informers:
            await informer.synced.wait()
        while not self._jobs_read:
            try:
                await self._read_jobs()
            except ClusterError as error:
                log.info("%s", error)
                await asyncio.sleep(RETRY_SECONDS)

    def unread(self) -> list[str]:
        """Kinds whose state `synced` waits for."""
        kinds_unread = {informer.kind.name for informer in self._informers if not informer.synced.is_set()}
        return sorted(kinds_unread if self._jobs_read else {*kinds_unread, kinds.JOB.name})

    def silence(self) -> dict[str, float]:
        """Seconds since each kind's watch was last heard."""
        now = self._clock()
        heard: dict[str, float] = {}
        for informer in self._informers:
            heard[informer.kind.name] = max(heard.get(informer.kind.name, 0.0), now - informer.last_heard)
        return heard

    def deaf(self) -> list[str]:
        """Kinds whose watches are dead."""
        return sorted(kind for kind, seconds in self.silence().items() if seconds > DEAF_SECONDS)

    def view(self, key: JobKey) -> View | None:
        return self.store.view(key, monitored=self._monitored)

    @property
    def _monitored(self) -> bool:
        monitors = (informer for informer in self._informers if informer.kind is kinds.POD_MONITOR)
        return self._pod_monitors and any(informer.present for informer in monitors)

    async def record(self, job: AgenticRLJob, revision: AllocationRevision) -> AllocationRevision:
        name, namespace = revision.metadata.name, job.metadata.namespace
        body = {
            "apiVersion": kinds.REVISION.api_version,
            "kind": kinds.REVISION.name,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": job_labels(job),
                "ownerReferences": [owner_reference(job)],
            },
            "spec": revision.to_dict()["spec"],
        }
        try:
            answer = await self._client.create(kinds.REVISION, body, Lane.STATUS)
        except Conflict:
            answer = await self._client.get(kinds.REVISION.path(namespace, name))
            _check_ours(answer, job)
        self.store.put(kinds.REVISION, answer)
        await self._prune(job)
        return AllocationRevision.from_cluster(answer)

    async def annotate(self, job: AgenticRLJob, updates: Mapping[str, AllocationRevisionStatus]) -> None:
        namespace = job.metadata.namespace
        for name, status in updates.items():
            if self.store.is_unowned((namespace, job.metadata.name), name):
                body = {"metadata": {"ownerReferences": [owner_reference(job)]}}  # else it would outlive its job
                await self._client.patch(kinds.REVISION.path(namespace, name), body, Patch.MERGE)
            await self._put_status(kinds.REVISION, {"name": name, "namespace": namespace}, status.to_dict())

    async def apply(self, view: View, wanted: Sequence[Manifest], costs: Mapping[str, int]) -> list[Change]:
        return await self._applier.apply(view, wanted, costs)

    async def set_status(self, view: View, status: JobStatus) -> None:
        namespace, name = view.job.key
        metadata = {"name": name, "namespace": namespace, "uid": view.job.metadata.uid}
        try:
            await self._put_status(kinds.JOB, metadata, status.to_dict())
        except NotFound:
            self.store.remove(kinds.JOB, namespace, name, view.job.metadata.uid, FOR_GOOD)

    async def why_stuck(self, view: View, now: Instant) -> dict[str, str]:
        said: dict[str, str] = {}
        for pod in [pod for pod in view.pods if _is_stuck(pod, now)][:STUCK_AT_A_TIME]:
            chosen = f"involvedObject.uid={pod.uid},type=Warning,reason!=FailedScheduling"
            answer = await self._client.get(kinds.EVENT.path(view.job.key[0]), {"fieldSelector": chosen})
            if events := answer.get("items"):
                said[pod.name] = str(max(events, key=lambda event: event.get("lastTimestamp") or "")["message"])
        return said

    async def event(self, view: View, kind: str, reason: str, message: str) -> None:
        await self._tell(event_about(kinds.JOB, view.job.metadata, kind, reason, message))

    def pool_view(self, name: str) -> PoolView | None:
        if (
            self.store.pooling and not self._jobs_read
        ):  # a job that nobody has told us of yet would look like one that is gone
            raise Unavailable("not all jobs are known yet")
        return self.store.pool_view(name, monitored=self._monitored)

    async def set_pool_status(self, pool: Pool, status: PoolStatus) -> None:
        try:
            await self._put_status(kinds.POOL, {"name": pool.name, "uid": pool.metadata.uid}, status.to_dict())
        except NotFound:
            self.store.remove(kinds.POOL, "", pool.name, pool.metadata.uid, FOR_GOOD)

    async def pool_event(self, pool: Pool, kind: str, reason: str, message: str) -> None:
        await self._tell(event_about(kinds.POOL, pool.metadata, kind, reason, message))

    async def _read_jobs(self) -> None:
        for namespace in self._namespaces:
            items, _ = await self._client.list_pages(kinds.JOB.path(namespace), "")
            for obj in items:
                self.store.put(kinds.JOB, obj)
        self._jobs_read = True

    async def _tell(self, event: Object) -> None:
        try:
            await self._client.create(kinds.EVENT, event)
        except ClusterError as error:
            log.warning("the event %s of %s is lost: %s", event["reason"], event["involvedObject"]["name"], error)

    async def _put_status(self, kind: Kind, metadata: Mapping[str, str], status: Object) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "status": status}
        path = kind.path(metadata.get("namespace"), metadata["name"], "status")
        answer = await self._client.patch(path, body, Patch.APPLY, params={"force": "true"}, lane=Lane.STATUS)
        self.store.put(kind, answer)

    async def _prune(self, job: AgenticRLJob) -> None:
        view = self.view((job.metadata.namespace, job.metadata.name))
        for old in prunable(view.revisions if view else (), job.spec.scaling.pin):
            try:
                path = kinds.REVISION.path(job.metadata.namespace, old.metadata.name)
                await self._client.delete(path, uid=old.metadata.uid)
            except (NotFound, Conflict):
                continue

    def _informer(self, kind: Kind, namespace: str | None) -> Informer:
        selector = "" if kind in (kinds.AUTOSCALER, kinds.POOL, kinds.QUOTA) else LABEL_JOB
        return Informer(
            self._client,
            kind,
            self.store,
            namespace=namespace,
            selector=selector,
            optional=kind in OPTIONAL,
            clock=self._clock,
        )


def _watched() -> tuple[Kind, ...]:
    return (*kinds.CHILDREN, kinds.POD, kinds.REVISION, kinds.AUTOSCALER, kinds.QUOTA)


def _is_stuck(pod: Pod, now: Instant) -> bool:
    """Whether a pod has a node and nothing came of it for a while."""
    waits = pod.bound and not (pod.started or pod.ended or pod.terminating or pod.problem)
    return waits and now - pod.created > STUCK_SECONDS


def _check_ours(entry: Object, job: AgenticRLJob) -> None:
    """That the entry with the next name was recorded for this job, by an operator that was killed before it heard so.

    Raises Refused for one that somebody wrote without saying whose it is, Unavailable for one that will go or be read.
    """
    metadata = entry["metadata"]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    if not owners and LABEL_JOB not in (metadata.get("labels") or {}):
        wanted = f"give it the label {LABEL_JOB}: {job.metadata.name}, or delete it"
        raise Refused(f"AllocationRevision {metadata['name']} has the next name and belongs to no job: {wanted}")
    if job.metadata.uid not in owners:
        raise Unavailable(f"AllocationRevision {metadata['name']} of an earlier job is not gone yet")
