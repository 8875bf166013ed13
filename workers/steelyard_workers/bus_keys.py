"""The job's key-value bucket.

`policy` {epoch, step, path}: the newest weights, path below the weights folder. `head` {epoch, step, path}: the
ledger's commit, path below the checkpoints folder. `plan` {epoch, ranks}: who trains. `admitted` {epoch, next,
size, closed}: the next group to be fed, the members of a group, and whether admission is closed (an empty task buffer
then means paced, not starved).
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import nats.js.errors
from nats.js.kv import KeyValue

from steelyard_workers.bus_patience import Patience, cancellable

Value = dict[str, Any]


class Overtaken(Exception):
    """Somebody else changed the key since it was read."""


class Keys:
    """JSON values with revisions."""

    def __init__(self, bucket: KeyValue, patience: Patience) -> None:
        self._bucket = bucket
        self._patience = patience

    async def read(self, key: str) -> tuple[Value | None, int]:
        """The value of a key and its revision; (None, 0) before the first write."""
        return await self._patience.retry(self._subject(key), lambda: self._get(key))

    async def write(self, key: str, value: Value) -> int:
        """Set a key, whatever it was; returns its revision."""
        return await self._patience.retry(self._subject(key), lambda: self._bucket.put(key, _encode(value)))

    async def swap(self, key: str, value: Value, revision: int) -> int:
        """Set a key iff its revision is still `revision`; returns the new one. Raises Overtaken.

        An attempt that got no answer may have succeeded, so each one reads first: `value` must be one that nobody
        else writes.
        """

        async def attempt() -> int:
            present, found = await self._get(key)
            if found != revision:
                if present == value:
                    return found
                raise Overtaken(f"{key} is {present} at revision {found}, expected revision {revision}")
            try:
                updated: int = await self._bucket.update(key, _encode(value), last=revision)
            except nats.js.errors.KeyWrongLastSequenceError as error:
                raise Overtaken(f"{key}: {error.description}") from error
            return updated

        return await self._patience.retry(self._subject(key), attempt)

    async def advance(self, key: str, value: Value, order: Callable[[Value], tuple[int, ...]]) -> None:
        """Set a key unless that would take it backwards in `order`: then Overtaken."""
        while True:
            present, revision = await self.read(key)
            if present is not None and order(present) > order(value):
                raise Overtaken(f"{key} is {present}, ahead of {value}")
            with suppress(Overtaken):  # somebody wrote in between: look again
                await self.swap(key, value, revision)
                return

    async def watch(self, key: str) -> AsyncIterator[Value]:
        """The present value of a key, if there is one, and then each new one; it survives a restart of the bus."""
        with cancellable():
            watcher = await self._bucket.watch(key)
        async for entry in watcher:
            if entry is not None and entry.value:
                yield json.loads(entry.value)

    async def _get(self, key: str) -> tuple[Value | None, int]:
        try:
            entry = await self._bucket.get(key)
        except nats.js.errors.KeyNotFoundError:
            return None, 0
        value: Value = json.loads(entry.value or b"null")
        return value, entry.revision or 0

    def _subject(self, key: str) -> str:
        return f"$KV.steelyard.{key}"


def _encode(value: Value) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
