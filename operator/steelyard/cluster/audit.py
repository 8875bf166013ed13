"""Compares kopf's jobs with a list of our own now and then: a watch that misses events does not know it.

What was missed is made up for at once; a watch that keeps missing makes the operator unhealthy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from steelyard.cluster import kinds
from steelyard.cluster.client import Client
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import Object
from steelyard.cluster.store import FOR_GOOD, Store

log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
LATE_SECONDS = 3.0
"""What was only on its way has come by then."""


class Audit:
    """Of all jobs in some namespaces."""

    def __init__(self, client: Client, store: Store, namespaces: Sequence[str | None]) -> None:
        self.misses = 0
        """Audits in a row that found something missing."""
        self._client, self._store, self._namespaces = client, store, namespaces

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.look()
            except ClusterError as error:
                log.info("the audit of jobs is put off: %s", error)

    async def look(self) -> None:
        """One audit."""
        before = {key: job.metadata.uid for key in self._store.jobs if (job := self._store.job(key))}
        listed: list[Object] = []
        for namespace in self._namespaces:
            items, _ = await self._client.list_pages(kinds.JOB.path(namespace), "")
            listed += items
        await asyncio.sleep(LATE_SECONDS)
        missed = [obj for obj in listed if self._is_news(obj)]
        for obj in missed:
            self._store.put(kinds.JOB, obj)
        alive = {obj["metadata"]["uid"] for obj in listed}
        ghosts = [(key, uid) for key, uid in before.items() if uid not in alive and self._knows(key, uid)]
        for key, uid in ghosts:
            self._store.remove(kinds.JOB, *key, uid, FOR_GOOD)
        self.misses = self.misses + 1 if missed or ghosts else 0

    def _is_news(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        known = self._store.job((metadata["namespace"], metadata["name"]))
        if known is None or known.metadata.uid != metadata["uid"]:
            return not self._store.is_buried(metadata)
        return known.metadata.generation < int(metadata["generation"])

    def _knows(self, key: tuple[str, str], uid: str) -> bool:
        known = self._store.job(key)
        return known is not None and known.metadata.uid == uid
