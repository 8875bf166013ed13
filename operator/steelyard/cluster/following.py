"""Collections of objects kept up to date by watches, for the command line: look, wait, look again.

One thread: every watch is a kubectl whose output is polled, so that nothing outlives the block.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self, TextIO

from steelyard.cluster.errors import ClusterError, Expired, Unavailable
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.kubectl import Kubectl, event_of
from steelyard.cluster.kubectl_errors import meaning

SETTLE_SECONDS = 0.15
"""What changes together is told once."""
AGAIN_SECONDS = 0.5
RETRY_SECONDS = 2.0
CHUNK = 1 << 16


@dataclass(frozen=True)
class Watched:
    """One collection; all namespaces when none is named."""

    kind: Kind
    namespace: str | None = None
    selector: str = ""
    fields: str = ""
    needed: bool = True
    """Whether to raise when it may not be read; else it is left out, and `Following.lacking` says why."""


@dataclass
class _Watch:
    """One collection, what is known of it, and the kubectl that tells its changes."""

    of: Watched
    version: str = ""
    objects: dict[str, Object] = field(default_factory=dict)
    """By uid."""
    process: subprocess.Popen[str] | None = None
    running: ExitStack = field(default_factory=ExitStack)
    rest: bytes = b""
    retry_at: float = 0.0

    def stop(self) -> None:
        self.running.close()
        self.process, self.rest = None, b""


class Following:
    """What is there, and a place to wait for the next change."""

    def __init__(self, kubectl: Kubectl, watched: Sequence[Watched]) -> None:
        self._kubectl = kubectl
        self._watches = [_Watch(of) for of in watched]
        self._selector = selectors.DefaultSelector()
        self.lacking: dict[Kind, ClusterError] = {}
        """What could not be read from the start."""

    def __enter__(self) -> Self:
        """Everything is read; raises the first ClusterError about what is needed."""
        try:
            found = self._kubectl.at_once([partial(self._read, watch) for watch in self._watches])
            for watch, error in zip(self._watches, found, strict=True):
                if error is not None and watch.of.needed:
                    raise error
                if error is not None:
                    self.lacking[watch.of.kind] = error
            self._watches = [watch for watch in self._watches if watch.of.kind not in self.lacking]
        except BaseException:
            self._selector.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.stop()
        self._selector.close()

    def objects(self, kind: Kind) -> list[Object]:
        """All known objects of a kind, by namespace and name."""
        found = [obj for watch in self._watches if watch.of.kind == kind for obj in watch.objects.values()]
        return sorted(found, key=lambda obj: (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))

    def wait(self, seconds: float | None = None, keys: TextIO | None = None) -> str:
        """Until something changed, a key was pressed on `keys` (then that key), or the time is over. For ever if None.

        Raises ClusterError, Unavailable excepted: what cannot be reached is tried again.
        """
        until = None if seconds is None else time.monotonic() + seconds
        if keys is not None:
            self._selector.register(keys, selectors.EVENT_READ)
        try:
            return self._wait(until, keys)
        finally:
            if keys is not None:
                self._selector.unregister(keys)

    def _wait(self, until: float | None, keys: TextIO | None) -> str:
        settled: float | None = None
        while True:
            changed = self._restart()
            now = time.monotonic()
            settled = settled or (now + SETTLE_SECONDS if changed else None)
            ends = [at for at in (until, settled, *(watch.retry_at for watch in self._waiting)) if at is not None]
            for key, _ in self._selector.select(max(min(ends) - now, 0.0) if ends else None):
                if key.fileobj is keys:
                    return os.read(key.fd, 1).decode(errors="replace")
                if self._take(key.data):
                    settled = settled or time.monotonic() + SETTLE_SECONDS
            now = time.monotonic()
            if any(end is not None and now >= end for end in (until, settled)):
                return ""

    @property
    def _waiting(self) -> list[_Watch]:
        return [watch for watch in self._watches if watch.process is None]

    def _restart(self) -> bool:
        """Start the watches that are due; whether a collection had to be read again."""
        changed = False
        for watch in self._waiting:
            if time.monotonic() < watch.retry_at:
                continue
            try:
                if not watch.version:
                    self._read(watch)
                    changed = True
            except Unavailable:
                watch.retry_at = time.monotonic() + RETRY_SECONDS
                continue
            of = watch.of
            watching = self._kubectl.watching(
                of.kind, of.namespace, since=watch.version, selector=of.selector, fields=of.fields
            )
            watch.process = watch.running.enter_context(watching)
            assert watch.process.stdout is not None
            self._selector.register(watch.process.stdout, selectors.EVENT_READ, watch)
        return changed

    def _read(self, watch: _Watch) -> None:
        of = watch.of
        items, watch.version = self._kubectl.collection(of.kind, of.namespace, selector=of.selector, fields=of.fields)
        watch.objects = {obj["metadata"]["uid"]: obj for obj in items}

    def _take(self, watch: _Watch) -> bool:
        """Read what a watch has to say; whether an object changed."""
        assert watch.process is not None
        assert watch.process.stdout is not None
        said = os.read(watch.process.stdout.fileno(), CHUNK)
        if not said:
            self._ended(watch)
            return False
        *lines, watch.rest = (watch.rest + said).split(b"\n")
        told = [self._told(watch, line.decode()) for line in lines if line]
        return any(told)

    def _told(self, watch: _Watch, line: str) -> bool:
        try:
            kind, obj = event_of(line)
        except Expired:
            watch.version = ""
            return False
        watch.version = obj["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return False
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            return watch.objects.pop(uid, None) is not None
        watch.objects[uid] = obj
        return True

    def _ended(self, watch: _Watch) -> None:
        """The server ends every watch now and then; what broke it is tried again, what refused it is raised."""
        process = watch.process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._selector.unregister(process.stdout)
        said, code = process.stderr.read(), process.wait()
        watch.stop()
        watch.retry_at = time.monotonic() + AGAIN_SECONDS
        if not code:
            return
        error = meaning(said)
        if isinstance(error, Expired):
            watch.version = ""
        elif isinstance(error, Unavailable):
            watch.retry_at = time.monotonic() + RETRY_SECONDS
        else:
            raise error
