"""A cluster in memory: it keeps objects, plays the built-in controllers, and does only what a test asks for.

It goes through the operator's own store, records and changes, so that what is faked is the API server alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from steelyard.api import AgenticRLJob, AllocationRevision, AllocationRevisionStatus, JobStatus, PoolStatus
from steelyard.api.names import FIELD_MANAGER
from steelyard.balance.types import MetricsProblem, MetricsUnavailable, PodView, Rates
from steelyard.children.common import Manifest, job_labels, owner_reference
from steelyard.cluster import kinds
from steelyard.cluster.changes import Action, Change, changes
from steelyard.cluster.pool_records import Pool
from steelyard.cluster.records import JobKey
from steelyard.cluster.store import FOR_GOOD, Store
from steelyard.cluster.view import PoolView, View, litter
from tests.fake_objects import Object, applied, gpus_of, merged, owners, pod_of, runs, workload_status

WATCHED = (*kinds.CHILDREN, kinds.JOB, kinds.REVISION, kinds.POD, kinds.AUTOSCALER, kinds.POOL, kinds.QUOTA)
KINDS = {kind.name: kind for kind in WATCHED}
START = 1_800_000_000.0


class Killed(BaseException):
    """The operator is gone at this very line."""


@dataclass(frozen=True)
class Told:
    """An event that somebody can read."""

    kind: str
    reason: str
    message: str


class NoMetrics:
    """Prometheus is away."""

    async def read(self, job: AgenticRLJob, pods: Iterable[PodView], now: float, window_seconds: float = 60.0) -> Rates:
        return Rates(window_seconds, unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, "nobody answers"))


@dataclass
class FakeCluster:
    """Objects by (kind, namespace, name). `settle()` lets controllers and kubelet do all there is to do."""

    now: float = START
    writes: list[str] = field(default_factory=list)
    """What was written, in order: `apply Deployment calculator-environment`."""
    dies_after: int | None = None
    """Writes until `Killed`."""
    refuses: Exception | None = None
    """What `apply` raises."""
    refuses_to_record: Exception | None = None
    """What `record` raises."""
    stuck: dict[str, str] = field(default_factory=dict)
    """Pod name -> what the kubelet says about its volumes."""
    events: list[Told] = field(default_factory=list)
    drains: bool = False
    """Deleted pods stay terminating until `let_go()`."""
    starts: bool = True
    """New pods become ready."""
    watches_gpus: bool = True
    gpus: list[float] = field(default_factory=list)
    """GPUs of all pods that have not ended, at every moment anything changed."""

    def __post_init__(self) -> None:
        self.store = Store()
        self.objects: dict[tuple[str, str, str], Object] = {}
        self._numbers = iter(range(1, 10**9))

    # What the controller sees: steelyard.cluster.Cluster

    def view(self, key: JobKey) -> View | None:
        return self.store.view(key, monitored=False)

    async def record(self, job: AgenticRLJob, revision: AllocationRevision) -> AllocationRevision:
        key = "AllocationRevision", job.metadata.namespace, revision.metadata.name
        if self.refuses_to_record:
            raise self.refuses_to_record
        if key not in self.objects:
            self._count_write(f"record {key[2]}")
            body = {
                "kind": key[0],
                "metadata": {
                    "name": key[2],
                    "namespace": key[1],
                    "labels": job_labels(job),
                    "ownerReferences": [owner_reference(job)],
                },
                "spec": revision.to_dict()["spec"],
            }
            self._put(body)
        return AllocationRevision.from_cluster(self.objects[key])

    async def annotate(self, job: AgenticRLJob, updates: Mapping[str, AllocationRevisionStatus]) -> None:
        for name, status in updates.items():
            self._count_write(f"annotate {name}")
            obj = deepcopy(self.objects["AllocationRevision", job.metadata.namespace, name])
            self._put({**obj, "status": status.to_dict()})

    async def apply(self, view: View, wanted: Sequence[Manifest], costs: Mapping[str, int]) -> list[Change]:
        if self.refuses:
            raise self.refuses
        for pod in litter(view):
            self._remove(self.objects["Pod", view.job.key[0], pod.name])
        todo = changes(view.job.metadata.uid, wanted, view.children, self.store.acknowledged)
        return [change for change in todo if self._carry_out(change, view.job.key[0])]

    async def set_status(self, view: View, status: JobStatus) -> None:
        self._count_write("status")
        obj = deepcopy(self.objects["AgenticRLJob", *view.job.key])
        self._put({**obj, "status": status.to_dict()})

    async def why_stuck(self, view: View, now: float) -> dict[str, str]:
        return self.stuck

    async def event(self, view: View, kind: str, reason: str, message: str) -> None:
        self.events.append(Told(kind, reason, message))

    def pool_view(self, name: str) -> PoolView | None:
        return self.store.pool_view(name, monitored=False)

    async def set_pool_status(self, pool: Pool, status: PoolStatus) -> None:
        self._count_write(f"pool {pool.name}")
        self._put({**deepcopy(self.objects["RLPool", "default", pool.name]), "status": status.to_dict()})

    async def pool_event(self, pool: Pool, kind: str, reason: str, message: str) -> None:
        self.events.append(Told(kind, reason, message))

    # What tests do

    def create(self, manifest: Object) -> None:
        self._put(manifest)

    def edit(
        self, kind: str, name: str, change: Mapping[str, Any], *, by: str = "kubectl-edit", merge: bool = True
    ) -> None:
        """Somebody changes an object of the namespace `default`: a merge in depth, or of the spec's own fields only."""
        obj = deepcopy(self.objects[kind, "default", name])
        fields = [entry for entry in obj["metadata"].get("managedFields", []) if entry["manager"] != by]
        old, new = obj.get("spec", {}), change.get("spec", {})
        spec = merged(old, new) if merge else {**old, **deepcopy(new)}
        body = merged({**obj, "spec": spec}, {key: value for key, value in change.items() if key != "spec"})
        body["metadata"]["managedFields"] = [*fields, {"manager": by, "time": self._stamp()}]
        self._put(body)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object of the namespace `default`; what it owns goes too, as do a workload's pods."""
        obj = self.objects[kind, "default", name]
        if kind == "Pod":
            self._end_pod(obj)
            return
        self._remove(obj)
        uid = obj["metadata"]["uid"]
        for owned in [o for o in self.objects.values() if uid in owners(o)]:
            if (owned["kind"], "default", owned["metadata"]["name"]) in self.objects:
                self.delete(owned["kind"], owned["metadata"]["name"])

    def get(self, kind: str, name: str) -> Object:
        return self.objects[kind, "default", name]

    def names(self, kind: str) -> list[str]:
        return sorted(name for found, _, name in self.objects if found == kind)

    def pods(self, stage: str | None = None) -> list[Object]:
        found = (obj for (kind, _, _), obj in self.objects.items() if kind == "Pod")
        return [pod for pod in found if stage in (None, pod["metadata"]["labels"]["steelyard.dev/stage"])]

    def replicas(self) -> dict[str, int]:
        """Running replicas by workload: what `kubectl get deploy,sts,job` would show."""
        return {
            name: obj["spec"].get("replicas", 1 if kind == "Job" else 0)
            for (kind, _, name), obj in sorted(self.objects.items())
            if kind in ("Deployment", "StatefulSet", "Job")
        }

    def report(self, pod: Object, state: Object, phase: str = "Running", *, last: Object | None = None) -> None:
        """What the kubelet says about the worker's container."""
        status = {"name": "worker", "state": state, **({"lastState": last} if last else {})}
        self._put({**deepcopy(pod), "status": {"phase": phase, "containerStatuses": [status], "conditions": []}})

    def end_trainer(self, outcome: str, message: str = "") -> None:
        """The trainer's Job completes or fails, its pod leaving `message`."""
        job = next(obj for (kind, _, _), obj in self.objects.items() if kind == "Job")
        for pod in self.pods("trainer"):
            phase = "Succeeded" if outcome == "Complete" else "Failed"
            self.report(
                pod, {"terminated": {"exitCode": 0 if outcome == "Complete" else 64, "message": message}}, phase
            )
        condition = {"type": outcome, "status": "True", "message": "the Job ended"}
        self._put({**deepcopy(job), "status": {"conditions": [condition]}})

    def let_go(self) -> bool:
        """All terminating pods are gone; returns whether there were any."""
        leaving = [pod for pod in self.pods() if "deletionTimestamp" in pod["metadata"]]
        for pod in leaving:
            self._remove(pod)
        return bool(leaving)

    def settle(self) -> None:
        """Every workload gets the pods it asks for, and its status."""
        for (kind, _, _), obj in list(self.objects.items()):
            if kind in ("Deployment", "StatefulSet", "Job"):
                self._reconcile(obj)

    # How an API server behaves

    def _carry_out(self, change: Change, namespace: str) -> bool:
        self._count_write(f"{change.action} {change.kind} {change.name}")
        key = change.kind, namespace, change.name
        if change.action is Action.DELETE:
            self.delete(change.kind, change.name)
            return True
        assert change.manifest is not None
        before = self.objects.get(key)
        if change.action is Action.SCALE:
            assert before is not None
            body = {**deepcopy(before), "spec": {**before["spec"], "replicas": change.manifest["spec"]["replicas"]}}
        else:
            body = applied(before, change.manifest)
        fields = [entry for entry in body["metadata"].get("managedFields", []) if entry["manager"] != FIELD_MANAGER]
        ours: Object = {"f:replicas": {}} if "replicas" in change.manifest.get("spec", {}) else {}
        entry = {"manager": FIELD_MANAGER, "time": self._stamp(), "fieldsV1": {"f:spec": ours}}
        body["metadata"]["managedFields"] = [*fields, entry]
        self._put(body)
        after = self.objects[key]
        self.store.acknowledge(after)
        return before is None or after["spec" if "spec" in after else "data"] != before.get("spec", before.get("data"))

    def _count_write(self, what: str) -> None:
        if self.dies_after is not None:
            if self.dies_after == 0:
                raise Killed
            self.dies_after -= 1
        self.writes.append(what)

    def _put(self, body: Object) -> None:
        key = body["kind"], body["metadata"].setdefault("namespace", "default"), body["metadata"]["name"]
        before = self.objects.get(key)
        number = next(self._numbers)
        metadata = body["metadata"] = dict(body["metadata"])
        old = before["metadata"] if before else {}
        same = before is not None and before.get("spec") == body.get("spec")
        metadata["uid"] = old.get("uid", f"uid-{number}")
        metadata["generation"] = old.get("generation", 0) + (0 if same else 1)
        metadata["resourceVersion"] = str(number)
        metadata.setdefault("creationTimestamp", datetime.fromtimestamp(self.now, UTC).isoformat())
        self.objects[key] = body
        self.store.put(KINDS[key[0]], deepcopy(body))
        self._log_gpus()

    def _remove(self, obj: Object) -> None:
        metadata = obj["metadata"]
        key = obj["kind"], metadata["namespace"], metadata["name"]
        if self.objects.pop(key, None):
            self.store.remove(KINDS[key[0]], key[1], key[2], metadata["uid"], FOR_GOOD)
        self._log_gpus()

    def _reconcile(self, obj: Object) -> None:
        kind, name = obj["kind"], obj["metadata"]["name"]
        ended = kind == "Job" and (obj.get("status") or {}).get("conditions")
        wanted = 0 if ended else 1 if kind == "Job" else obj["spec"].get("replicas", 1)
        mine = [pod for pod in self.pods() if obj["metadata"]["uid"] in owners(pod)]
        alive = [p for p in mine if "deletionTimestamp" not in p["metadata"] and p["status"]["phase"] == "Running"]
        for pod in alive[max(wanted, 0) :]:
            self._end_pod(pod)
        for _ in range(wanted - len(alive)):
            self._start_pod(obj)
        if ended:
            return
        alive = [pod for pod in self.pods() if obj["metadata"]["uid"] in owners(pod) and runs(pod)]
        status = workload_status(self.objects[kind, "default", name], alive)
        if obj.get("status") != status:
            self._put({**deepcopy(self.objects[kind, "default", name]), "status": status})

    def _start_pod(self, workload: Object) -> None:
        self._put(pod_of(workload, number=next(self._numbers), ready=self.starts))

    def _end_pod(self, pod: Object) -> None:
        if self.drains and runs(pod):
            body = deepcopy(pod)
            body["metadata"]["deletionTimestamp"] = self._stamp()
            self._put(body)
        else:
            self._remove(pod)

    def _log_gpus(self) -> None:
        if not self.watches_gpus:
            return
        held = [p for p in self.pods() if p["status"]["phase"] == "Running"]
        self.gpus.append(sum(gpus_of(pod) for pod in held))

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
