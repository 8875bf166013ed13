"""The example environment: sums with a tool. The policy asks the tool `Ca+b>`, reads `Rsum;` and answers `Asum#`.

Arguments: `toolSeconds`, the median latency of the tool (0: none), and `toolSigma`, the spread of its lognormal
distribution. Tasks are records `{"prompt": "Q12+34=", "answer": 46}`.
"""

import asyncio
import math
import random
import re
from collections.abc import Mapping
from typing import Any

from steelyard_workers.environment.protocol import Environment, EpisodeApi

CALL = re.compile(r"C(\d+)\+(\d+)>")
CALL_TOKENS = 10
ANSWER_TOKENS = 6


def environment(toolSeconds: str = "0", toolSigma: str = "0.5") -> Environment:  # noqa: N803 - named as in the job
    """The entry point."""
    return Calculator(float(toolSeconds), float(toolSigma))


class Calculator:
    """Gives one answer per episode; a call that does not parse ends it."""

    def __init__(self, tool_seconds: float, tool_sigma: float) -> None:
        self._tool_seconds, self._tool_sigma = tool_seconds, tool_sigma

    async def run(self, task: Mapping[str, Any], episode: EpisodeApi) -> None:
        """One sum."""
        episode.prompt(task["prompt"])
        call = await episode.generate(max_tokens=CALL_TOKENS, stop=(">",))
        asked = CALL.fullmatch(call.text)
        if asked is None:
            return
        total = await episode.tool("calculator", self._add(int(asked[1]), int(asked[2])))
        episode.observe(f"R{total};")
        await episode.generate(max_tokens=ANSWER_TOKENS, stop=("#",))

    async def _add(self, a: int, b: int) -> int:
        if self._tool_seconds > 0:
            latency = random.lognormvariate(math.log(self._tool_seconds), self._tool_sigma)
            await asyncio.sleep(latency)
        return a + b
