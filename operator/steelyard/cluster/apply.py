"""Makes a job's children what is wanted. `KubernetesCluster` calls it once a tick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from steelyard.api import Stage
from steelyard.api.names import LABEL_JOB, LABEL_PROFILE, LABEL_STAGE
from steelyard.children.common import Manifest
from steelyard.cluster import kinds
from steelyard.cluster.changes import Action, Change, changes
from steelyard.cluster.client import Client, Lane, Patch
from steelyard.cluster.errors import Conflict, NotFound, Refused
from steelyard.cluster.kinds import Object
from steelyard.cluster.records import Child, edition
from steelyard.cluster.store import Store
from steelyard.cluster.view import View, litter

COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
JOBS_CREATING = 6
MANY_CHANGES = 4
REPAIR_SECONDS = 5.0


class Applier:
    """Writes what is wanted and is not there, in the fewest writes, and remembers what it wrote."""

    def __init__(self, client: Client, store: Store, clock: Callable[[], float]) -> None:
        self._client, self._store, self._clock = client, store, clock
        self._creating = asyncio.Semaphore(JOBS_CREATING)
        self._repaired: dict[tuple[str, str, str], float] = {}

    async def apply(self, view: View, wanted: Sequence[Manifest], costs: Mapping[str, int]) -> list[Change]:
        owner, namespace = view.job.metadata.uid, view.job.key[0]
        await self._sweep(view)
        todo = [
            change
            for change in changes(owner, wanted, view.children, self._store.acknowledged)
            if not (change.drift and self._repaired_lately(owner, change))
        ]
        if len(todo) < MANY_CHANGES:
            return await self._change_all(todo, namespace, view, costs)
        async with self._creating:  # whole jobs one after the other: the first are ready while the last are written
            return await self._change_all(todo, namespace, view, costs)

    def _repaired_lately(self, owner: str, change: Change) -> bool:
        """Two who write the same field in turn must not keep each other busy."""
        key, now = (owner, change.kind, change.name), self._clock()
        self._repaired = {k: at for k, at in self._repaired.items() if now - at < REPAIR_SECONDS}
        return self._repaired.setdefault(key, now) != now

    async def _change_all(
        self, todo: Sequence[Change], namespace: str, view: View, costs: Mapping[str, int]
    ) -> list[Change]:
        results = await asyncio.gather(
            *(self._change(change, namespace, view, costs) for change in todo), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [change for change, effective in zip(todo, results, strict=True) if effective]

    async def _change(self, change: Change, namespace: str, view: View, costs: Mapping[str, int]) -> bool:
        """Carry out one change; whether the object is another one now."""
        kind = kinds.BY_NAME[change.kind]
        path = kind.path(namespace, change.name)
        if change.action is Action.DELETE:
            assert change.child is not None
            await self._delete(path, change.child)
            return True
        assert change.manifest is not None
        if _takes_away(change):
            await self._rank(change.manifest, view, costs)
        if change.action is Action.SCALE:
            answer = await self._client.patch(path, {"spec": _scale(change.manifest)}, Patch.MERGE)
        else:
            if change.child is None:
                await self._make_sure_it_is_ours(path, change, view)
            answer = await self._client.apply(change.manifest)
        self._store.put(kind, {**answer, "kind": kind.name})
        self._store.acknowledge(answer)
        return change.child is None or edition(answer["metadata"]) != change.child.edition

    async def _make_sure_it_is_ours(self, path: str, change: Change, view: View) -> None:
        """An object of this name that is somebody else's would become the job's, and be deleted with it."""
        try:
            metadata = (await self._client.get(path, lane=Lane.BULK))["metadata"]
        except NotFound:
            return
        owners = {ref["uid"] for ref in metadata.get("ownerReferences") or ()}
        label, job = (metadata.get("labels") or {}).get(LABEL_JOB), view.job.key[1]
        if label != job and view.job.metadata.uid not in owners:
            why = f"exists and is not this job's: it has no label {LABEL_JOB}: {job}. Rename the job, or remove it"
            raise Refused(f"{change.kind} {change.name} {why}")

    async def _sweep(self, view: View) -> None:
        """A trainer that outlived its Job would train beside its successor; pods of Deployments are adopted instead.

        Of those that failed a few stay to be looked at.
        """
        strays = [pod for pod in view.pods if pod.stray and pod.stage == Stage.TRAINER.value and not pod.ended]
        for pod in [*(pod for pod in strays if not pod.terminating), *litter(view)]:
            try:
                await self._client.delete(kinds.POD.path(view.job.key[0], pod.name), uid=pod.uid)
            except (NotFound, Conflict):
                continue

    async def _delete(self, path: str, child: Child) -> None:
        try:
            # A Job goes only after its pods: its successor must not start beside them.
            how = "Foreground" if child.kind == "Job" else "Background"
            await self._client.delete(path, uid=child.uid, propagation=how)
        except (NotFound, Conflict):
            return  # gone already, or another object has its name by now

    async def _rank(self, manifest: Manifest, view: View, costs: Mapping[str, int]) -> None:
        """Tell the ReplicaSet which of the pods have least to lose."""
        labels = manifest["metadata"]["labels"]
        place = labels[LABEL_STAGE], labels[LABEL_PROFILE]
        for pod in [pod for pod in view.pods if pod.name in costs and (pod.stage, pod.profile) == place]:
            body = {"metadata": {"annotations": {COST_ANNOTATION: str(costs[pod.name])}}}
            try:
                await self._client.patch(kinds.POD.path(view.job.key[0], pod.name), body, Patch.MERGE)
            except NotFound:
                continue


def _takes_away(change: Change) -> bool:
    """Whether the change lowers replicas of a Deployment."""
    if change.child is None or change.kind != "Deployment" or change.manifest is None:
        return False
    before: int = change.child.replicas
    return bool(change.manifest["spec"].get("replicas", before) < before)


def _scale(manifest: Manifest) -> Object:
    if manifest["kind"] == "Job":
        return {"suspend": False, "parallelism": manifest["spec"]["parallelism"]}
    return {"replicas": manifest["spec"]["replicas"]}
