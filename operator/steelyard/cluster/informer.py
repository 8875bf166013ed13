"""Keeps a local picture of one collection: the whole state first, then every change, for ever.

WatchList streams the state and marks its end with a bookmark; servers without it get a paged LIST.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from steelyard.cluster.client import Client
from steelyard.cluster.errors import ClusterError, Expired, NotFound, Refused, Unavailable
from steelyard.cluster.kinds import Kind, Object

log = logging.getLogger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BACKOFF_SECONDS = (0.2, 10.0)
ABSENT_RETRY_SECONDS = 20.0


class Sink(Protocol):
    """Where an informer delivers."""

    def put(self, kind: Kind, obj: Object) -> None: ...

    def remove(self, kind: Kind, namespace: str, name: str, uid: str, version: int) -> None: ...


class Informer:
    """One collection of one kind, in one namespace or in all."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        sink: Sink,
        *,
        namespace: str | None = None,
        selector: str = "",
        optional: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.present = False
        """Whether the server knows the kind; an optional kind may come and go with its CRD."""
        self.last_heard = clock()
        self._client, self._sink, self._clock = client, sink, clock
        self._path = kind.path(namespace)
        self._selector = selector
        self._optional = optional
        self._version = ""
        self._known: dict[str, tuple[str, str]] = {}
        self._streams = True

    async def run(self) -> None:
        """Follow the collection until cancelled; errors are waited out."""
        shortest, longest = BACKOFF_SECONDS
        backoff = shortest
        while True:
            before = self._version
            try:
                if not self._version and not self._streams:
                    await self._list()
                await self._watch()
                if self._version == before:  # a proxy that hangs up at once must not keep us busy
                    raise Unavailable(f"the watch of {self._path} ended without a word")
                backoff = shortest
            except Expired:
                self._version = ""
            except NotFound as error:
                await self._absent(error)
            except Refused as error:
                if self._optional and not self._streams:
                    await self._absent(error)  # not allowed to read it, which is as good as not being there
                elif self._version or not self._streams:
                    log.warning("%s", error)
                    await asyncio.sleep(longest)
                self._version, self._streams = "", False
            except ClusterError as error:
                log.info("%s", error)
                backoff = shortest if self._version != before else min(backoff * 2, longest)
                await asyncio.sleep(backoff)

    async def _list(self) -> None:
        items, version = await self._client.list_pages(self._path, self._selector)
        for obj in items:
            self._put(obj)
        self._complete({obj["metadata"]["uid"] for obj in items}, version)

    async def _watch(self) -> None:
        params = {"labelSelector": self._selector}
        fresh = not self._version
        if fresh:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            params |= {"resourceVersion": self._version}
        seen: set[str] = set()
        async for kind, obj in self._client.watch(self._path, **params):
            self.last_heard = self._clock()
            metadata = obj["metadata"]
            if kind == "BOOKMARK":
                if fresh and (metadata.get("annotations") or {}).get(INITIAL_EVENTS_END) == "true":
                    fresh = False
                    self._complete(seen, metadata["resourceVersion"])
            elif kind == "DELETED":
                place = metadata.get("namespace", ""), metadata["name"]
                self._remove(metadata["uid"], place, int(metadata["resourceVersion"]))
            else:
                self._put(obj)
                seen.add(metadata["uid"])
            if not fresh:
                self._version = metadata["resourceVersion"]

    def _put(self, obj: Object) -> None:
        metadata: dict[str, Any] = obj["metadata"]
        place = self._known[metadata["uid"]] = metadata.get("namespace", ""), metadata["name"]
        try:
            self._sink.put(self.kind, obj)
        except Exception:  # one object that we cannot read must not end the operator of all others, again and again
            log.exception("a bug: %s %s is left out", self.kind.name, "/".join(filter(None, place)))

    def _remove(self, uid: str, place: tuple[str, str], version: int) -> None:
        self._known.pop(uid, None)
        self._sink.remove(self.kind, *place, uid, version)

    def _complete(self, seen: set[str], version: str) -> None:
        """The state is whole: what we knew and did not see is gone. Without a version nobody could look."""
        for uid in self._known.keys() - seen:
            self._remove(uid, self._known[uid], int(version or 0))
        self._version = version
        self.last_heard = self._clock()
        self.present = True
        self.synced.set()

    async def _absent(self, error: ClusterError) -> None:
        if not self._optional:
            log.warning("%s", error)
        else:
            self._complete(set(), "")
            self.present = False
        await asyncio.sleep(ABSENT_RETRY_SECONDS if self._optional else BACKOFF_SECONDS[1])
