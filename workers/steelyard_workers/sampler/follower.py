"""Keeps an engine at the newest weights that the pointer on the bus names. It pulls; nobody pushes.

While the engine is updated its requests stand still and go on afterwards. Every phase is bounded: an engine that cannot
be brought to a whole, proven version asks to be restarted rather than answering with something in between.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from steelyard_workers.latest import Latest
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler.canary import Canary, Sighting
from steelyard_workers.sampler.checkpoint import Torn, check_whole
from steelyard_workers.sampler.engine import Engine

BASE = PolicyVersion(0, 0)
"""The model that the job starts from, before the trainer's first word."""
ATTEMPTS = 3
RETRY_SECONDS = 1.0
PAUSE_SECONDS = 60.0
LOAD_SECONDS = 900.0
CANARY_SECONDS = 600.0

log = logging.getLogger(__name__)


class EngineUnfit(Exception):
    """The engine cannot be brought to a version that is published; only a new process helps."""


class Follower:
    """`version` is what the engine computes with, `published` what the pointer names (None: unknown yet)."""

    def __init__(
        self,
        engine: Engine,
        weights: Path,
        max_staleness: int,
        *,
        syncing: Callable[[], AbstractContextManager[object]],
        updated: Callable[[PolicyVersion], None],
    ) -> None:
        self._engine, self._weights, self._max_staleness = engine, weights, max_staleness
        self._syncing, self._updated = syncing, updated
        self._sighting: Sighting | None = None
        self._proven = True
        self._failures = 0
        self.version = BASE
        self.published: PolicyVersion | None = None

    @property
    def objection(self) -> str | None:
        """Why this sampler should get no requests now; being in the middle of an update is no reason."""
        if self.published is None:
            return "the newest policy version is not known yet"
        if not self._proven:
            return f"version {self.version} is not what the trainer published"
        lag = self.published.step - self.version.step
        if lag > self._max_staleness:
            return f"version {self.version} is {lag} behind {self.published}, allowed {self._max_staleness}"
        return None

    async def follow(self, pointer: Latest) -> None:
        """Pull whatever the pointer names, for ever. Raises EngineUnfit."""
        await pointer.known.wait()
        while True:
            pointer.changed.clear()
            if await self.catch_up(pointer.value):
                await pointer.changed.wait()
            else:
                await asyncio.sleep(RETRY_SECONDS)

    async def catch_up(self, pointer: dict[str, Any] | None) -> bool:
        """Bring the engine to the pointer's version. False: not this time, ask again. Raises EngineUnfit."""
        if pointer is None:
            self.published = self.published or BASE
            return True
        self.published = PolicyVersion(int(pointer["epoch"]), int(pointer["step"]))
        if self.version == self.published and self._proven:
            return True
        folder = self._weights / pointer["path"]
        try:
            await asyncio.to_thread(check_whole, folder)
            canary = await asyncio.to_thread(Canary.load, folder)
        except Torn as error:
            log.warning("version %s: %s", self.published, error)
            return False
        try:
            await self._replace(folder, self.published)
            objection = await self._examine(canary)
        except Exception as error:  # whatever the engine raises, it may be half updated
            objection = f"{type(error).__name__}: {error}"
        self._proven = objection is None
        if objection is None:
            self._failures = 0
            return True
        self._failures += 1
        log.error("version %s, attempt %d: %s", self.published, self._failures, objection)
        if self._failures >= ATTEMPTS:
            raise EngineUnfit(f"version {self.published}: {objection}")
        return False

    async def _replace(self, folder: Path, version: PolicyVersion) -> None:
        with self._syncing():
            async with asyncio.timeout(PAUSE_SECONDS):
                await self._engine.pause()
            async with asyncio.timeout(LOAD_SECONDS):
                await self._engine.load(folder, version)
            self.version = version
            async with asyncio.timeout(PAUSE_SECONDS):
                await self._engine.resume()
        self._updated(version)
        log.info("at version %s", version)

    async def _examine(self, canary: Canary | None) -> str | None:
        if canary is None:
            log.warning("version %s came without a canary and is taken on trust", self.version)
            self._sighting = None
            return None
        async with asyncio.timeout(CANARY_SECONDS):
            sighting = Sighting(canary, await self._engine.logprobs(canary.tokens))
        objection = sighting.objection(self._engine.tolerance, self._sighting)
        if objection is None:
            self._sighting = sighting
        return objection
