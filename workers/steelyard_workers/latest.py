"""The newest value of a key on the bus, as fresh as a watch and as dependable as reading it again and again."""

import asyncio
import logging

from steelyard_workers.bus_keys import Keys, Value
from steelyard_workers.bus_patience import UNREACHABLE, BusLost

REREAD_SECONDS = 5.0

log = logging.getLogger(__name__)


class Latest:
    """`value` is what the key held last, None before its first write; `known` is set once the bus was asked.

    `changed` is set with each new value.
    """

    def __init__(self, keys: Keys, key: str) -> None:
        self._keys, self._key = keys, key
        self.value: Value | None = None
        self.known = asyncio.Event()
        self.changed = asyncio.Event()

    async def follow(self) -> None:
        """Keep `value` fresh until cancelled. A bus that is away only makes it old."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._reread())

    async def _watch(self) -> None:
        while True:
            try:
                async for value in self._keys.watch(self._key):
                    self._set(value)
            except (*UNREACHABLE, BusLost) as error:
                log.warning("watching %s: %s", self._key, error)
            await asyncio.sleep(REREAD_SECONDS)

    async def _reread(self) -> None:
        while True:
            try:
                value, _ = await self._keys.read(self._key)
                self._set(value)
            except (*UNREACHABLE, BusLost) as error:
                log.warning("reading %s: %s", self._key, error)
            await asyncio.sleep(REREAD_SECONDS)

    def _set(self, value: Value | None) -> None:
        self.known.set()
        if value is not None and value != self.value:
            self.value = value
            self.changed.set()
