"""The judges of one replica, a fixed number shared by the stream and the HTTP route; patient with failures."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from steelyard_workers.messages import Trajectory
from steelyard_workers.reward.judge import Judge, JudgeFailed, Score

ATTEMPTS = 3
PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


class Poison(Exception):
    """A trajectory that cannot be scored, after several attempts, and why."""


class Bench:
    """Hands each trajectory to a free judge."""

    def __init__(self, judges: list[Judge], pause_seconds: float = PAUSE_SECONDS) -> None:
        self._free: asyncio.Queue[Judge] = asyncio.Queue()
        for judge in judges:
            self._free.put_nowait(judge)
        self._pause_seconds = pause_seconds

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, entrypoint: str, args: Mapping[str, str], size: int, timeout_seconds: float
    ) -> AsyncIterator["Bench"]:
        """`size` judges while the block runs. Raises UserError when the entry point cannot be used."""
        judges = [Judge(entrypoint, args, timeout_seconds) for _ in range(size)]
        try:
            for judge in judges:
                await judge.start()
            yield cls(judges)
        finally:
            for judge in judges:
                await judge.stop()

    async def score(self, trajectory: Trajectory) -> Score:
        """Raises Poison when no attempt gave a score.

        A trajectory that did not go well is worth nothing, and its part is not asked of the judge.
        """
        if trajectory.outcome != "ok":
            return Score(0.0)
        reasons: list[str] = []
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(self._pause_seconds * 2**attempt)
            judge = await self._free.get()
            try:
                return await judge.score(trajectory)
            except JudgeFailed as error:
                log.warning("trajectory %s: attempt %d: %s", trajectory.id, attempt + 1, error)
                reasons.append(str(error))
            finally:
                self._free.put_nowait(judge)
        raise Poison(f"no score in {ATTEMPTS} attempts: {'; '.join(dict.fromkeys(reasons))}")
