"""The user's reward function in a process of its own, so that one that hangs or crashes can be ended and replaced.

    def score(trajectory, **args: str) -> float | Mapping[str, float]

is what stages.rewardServer.entrypoint names; it may be async. `trajectory` is a steelyard_workers.messages.Trajectory:
the task's record, its segments, and `meta["texts"]`, the segments in words. A number is the reward; a mapping names its
parts, and their sum is the reward.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from steelyard_workers.messages import Trajectory, encode
from steelyard_workers.termination import UserError

MAX_LINE = 64 * 2**20
START_SECONDS = 600.0  # it may load a reward model

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Score:
    """A reward and what it is made of."""

    reward: float
    parts: Mapping[str, float] = field(default_factory=dict)


class JudgeFailed(Exception):
    """No score this time, and why."""


class Judge:
    """One process that scores one trajectory at a time. Killed and started anew when it takes too long or dies."""

    def __init__(self, entrypoint: str, args: Mapping[str, str], timeout_seconds: float) -> None:
        self._command = [
            sys.executable,
            "-m",
            "steelyard_workers.reward.judge_process",
            entrypoint,
            json.dumps(dict(args)),
        ]
        self._entrypoint = entrypoint
        self._timeout_seconds = timeout_seconds
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Have the reward function loaded. Raises UserError when it cannot be."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MAX_LINE
        )
        try:
            answer = await self._answer(START_SECONDS)
        except JudgeFailed as error:
            raise UserError(f"stages.rewardServer.entrypoint {self._entrypoint!r}: {error}") from error
        if "unusable" in answer:
            raise UserError(answer["unusable"])

    async def score(self, trajectory: Trajectory) -> Score:
        """Raises JudgeFailed when the function raises, returns no finite number, dies or takes too long."""
        if self._process is None:
            try:
                await self.start()
            except UserError as error:
                raise JudgeFailed(str(error)) from error
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(trajectory) + b"\n")
            await self._process.stdin.drain()
        except ConnectionError as error:
            await self.stop()
            raise JudgeFailed("the reward process was gone") from error
        except asyncio.CancelledError:
            await self.stop()
            raise
        answer = await self._answer(self._timeout_seconds)
        if "failed" in answer:
            raise JudgeFailed(answer["failed"])
        return Score(answer["reward"], answer["parts"])

    async def stop(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _answer(self, timeout_seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_seconds):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            await self.stop()
            raise JudgeFailed(f"no score within {timeout_seconds:g} s; its process was ended") from error
        except asyncio.CancelledError:
            await self.stop()
            raise
        if not line.endswith(b"\n"):  # nothing, or as much as it had written when it died
            status = await self._process.wait()
            self._process = None
            raise JudgeFailed(f"the reward process died with status {status}")
        answer: dict[str, Any] = json.loads(line)
        return answer
