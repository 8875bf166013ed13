"""What a user's environment looks like to Steelyard, and what it is given.

    def environment(**args: str) -> Environment     # named by stages.environment.entrypoint, called once per process

    class Calculator:
        async def run(self, task, episode):
            episode.prompt(task["prompt"])
            turn = await episode.generate(max_tokens=16, stop=(">",))
            total = await episode.tool("calculator", add(turn.text))
            episode.observe(f"{total};")
            await episode.generate(max_tokens=8, stop=("#",))

One instance runs many episodes at once, so it keeps nothing about an episode on itself. When `run` returns, the episode
is over and its trajectory is scored. When it raises, the trajectory counts as failed, with the exception as its reason.
Tools are awaited; one that blocks the event loop stops every episode of the replica until the kubelet restarts it.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ToolTimeout(Exception):
    """A tool took longer than episode.toolTimeoutSeconds. An environment may catch it and tell the policy."""


class TurnsExhausted(Exception):
    """The policy has had episode.maxTurns turns. Left uncaught it ends the episode in order, to be scored as it is."""


@dataclass(frozen=True)
class Turn:
    """What the policy wrote: text and its tokens. `finished` is false when max_tokens cut it off."""

    text: str
    tokens: tuple[int, ...]
    finished: bool


class EpisodeApi(Protocol):
    """One episode, as its environment sees it. The conversation is whatever was added to it so far, in order."""

    def prompt(self, text: str) -> None:
        """Add text that states the task."""

    def observe(self, text: str) -> None:
        """Add text that the policy reads but did not write: tool results. It is masked from the loss."""

    async def generate(self, *, max_tokens: int, stop: Sequence[str] = ()) -> Turn:
        """Let the policy go on with the conversation until it writes one of `stop` (kept), ends, or has max_tokens.

        Raises TurnsExhausted.
        """

    async def tool(self, name: str, call: Awaitable[T]) -> T:
        """Await a tool call, bounded and measured under `name`; several may run at the same time.

        Raises ToolTimeout, or what the tool raises.
        """


class Environment(Protocol):
    """What the entry point returns."""

    async def run(self, task: Mapping[str, Any], episode: EpisodeApi) -> None:
        """Play one episode of `task`, a record of the job's data set."""
