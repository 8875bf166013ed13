"""Exactly one operator acts: the one that holds the Lease, and only as long as it can be sure to hold it.

The fence is pessimistic: our claim ends earlier by our clock than anyone else may take over by theirs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from steelyard.cluster.client import Client
from steelyard.cluster.errors import ClusterError, Conflict, NotFound, NotLeader
from steelyard.cluster.kinds import LEASE, Object

log = logging.getLogger(__name__)

DURATION_SECONDS = 15
RENEW_SECONDS = 4.0
MARGIN_SECONDS = 3.0


class Lease:
    """Our claim to one Lease object."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_acquired: Callable[[], None] = lambda: None
        self._client, self._clock = client, clock
        self._namespace, self._name, self._identity = namespace, name, identity
        self._held_until = float("-inf")
        self._rival: tuple[str, float] = ("", clock())
        self.last_held = clock()

    @property
    def held(self) -> bool:
        return self._clock() < self._held_until

    def fence(self) -> float:
        """For how many seconds the Lease is surely ours. Raises NotLeader when it is not."""
        left = self._held_until - self._clock()
        if left <= 0:
            raise NotLeader(f"{self._identity} does not hold the Lease {self._namespace}/{self._name}")
        return left

    async def run(self) -> None:
        """Acquire and renew until cancelled."""
        said = ""
        while True:
            before = self.held
            try:
                await self._claim()
                said = ""
            except ClusterError as error:
                if str(error) != said:
                    log.warning("cannot renew the Lease: %s", said := str(error))
            if self.held:
                self.last_held = self._clock()
            if self.held and not before:
                log.info("%s acts from now on", self._identity)
                self.on_acquired()
            await asyncio.sleep(RENEW_SECONDS if self.held else RENEW_SECONDS / 4)

    async def release(self) -> None:
        """Let the next operator act at once."""
        if not self.held:
            return
        self._held_until = float("-inf")
        try:
            lease = await self._client.unfenced("GET", self._path)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.unfenced("PUT", self._path, lease)
        except ClusterError as error:
            log.info("the Lease was not released and will expire: %s", error)

    @property
    def _path(self) -> str:
        return LEASE.path(self._namespace, self._name)

    async def _claim(self) -> None:
        asked_at = self._clock()
        try:
            lease = await self._client.unfenced("GET", self._path)
        except NotFound:
            lease = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.name,
                "metadata": {"namespace": self._namespace, "name": self._name},
                "spec": {},
            }
            method, path = "POST", LEASE.path(self._namespace)
        else:
            if not self._may_take(lease):
                self._held_until = float("-inf")
                return
            method, path = "PUT", self._path
        self._sign(lease)
        try:
            await self._client.unfenced(method, path, lease)
        except Conflict:
            return  # somebody was faster; the next look says who
        self._held_until = asked_at + DURATION_SECONDS - MARGIN_SECONDS

    def _may_take(self, lease: Object) -> bool:
        """Ours, free, or not renewed for its whole duration while we were watching."""
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") in (self._identity, "", None):
            return True
        version = lease["metadata"]["resourceVersion"]
        if self._rival[0] != version:
            self._rival = version, self._clock()
        return self._clock() - self._rival[1] > float(spec.get("leaseDurationSeconds") or DURATION_SECONDS)

    def _sign(self, lease: Object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now}
        lease["spec"] = spec
