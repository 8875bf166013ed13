"""One episode: what was said so far, in tokens, and every wait in it bounded, measured and traced."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from steelyard.api import Episode as Bounds
from steelyard_workers.clock import Slot, State
from steelyard_workers.environment.protocol import ToolTimeout, Turn, TurnsExhausted
from steelyard_workers.environment.replicas import Replica
from steelyard_workers.environment.samplers import Completion, Request, Samplers, turn_seed
from steelyard_workers.environment.tokens import Tokenizer
from steelyard_workers.messages import Outcome, PolicyVersion, Segment, SegmentKind, Task, Trajectory
from steelyard_workers.metrics import EpisodeMetrics
from steelyard_workers.trace import Span

T = TypeVar("T")


class Episode:
    """The conversation of one trajectory; implements EpisodeApi (see there for what the methods promise)."""

    def __init__(
        self,
        task: Task,
        bounds: Bounds,
        *,
        tokenizer: Tokenizer,
        samplers: Samplers,
        slot: Slot,
        span: Span,
        metrics: EpisodeMetrics,
    ) -> None:
        self._task, self._bounds = task, bounds
        self._tokenizer, self._samplers = tokenizer, samplers
        self._slot, self._span, self._metrics = slot, span, metrics
        self._segments: list[Segment] = []
        self._texts: list[str] = []
        self._turns = 0
        self._truncated = False
        self._replica: Replica | None = None
        self._first: PolicyVersion | None = None
        self._last: PolicyVersion | None = None

    def prompt(self, text: str) -> None:
        self._add("prompt", text, self._tokenizer.encode(text))

    def observe(self, text: str) -> None:
        self._add("tool", text, self._tokenizer.encode(text))

    async def generate(self, *, max_tokens: int, stop: Sequence[str] = ()) -> Turn:
        if self._turns >= self._bounds.max_turns:
            self._truncated = True
            raise TurnsExhausted(f"{self._bounds.max_turns} turns")
        request = self._request(max_tokens, stop)
        with (
            self._slot.within(State.TOKENS),
            self._span.waiting(),
            self._span.step("generate", turn=self._turns) as step,
            step.waiting(),
        ):
            completion = await self._samplers.complete(request, self._replica)
            step.note(
                sampler=completion.replica.address,
                tokens=len(completion.tokens),
                policy_first=str(completion.first),
                policy_last=str(completion.last),
            )
        return self._heard(completion)

    async def tool(self, name: str, call: Awaitable[T]) -> T:
        started, outcome = time.monotonic(), "failed"
        with (
            self._slot.within(State.TOOL),
            self._span.waiting(),
            self._span.step("tool", tool=name) as step,
            step.waiting(),
        ):
            try:
                async with asyncio.timeout(self._bounds.tool_timeout_seconds) as bound:
                    result = await call
                outcome = "ok"
            except TimeoutError as error:
                if not bound.expired():
                    raise
                outcome = "timeout"
                raise ToolTimeout(f"{name} took longer than {self._bounds.tool_timeout_seconds} s") from error
            except asyncio.CancelledError:
                outcome = "timeout"  # the episode's own deadline
                raise
            finally:
                self._metrics.tool(name, outcome, time.monotonic() - started)
        return result

    def trajectory(self, outcome: Outcome, **meta: Any) -> Trajectory:
        """All of it, as it goes on the bus; `texts` in its meta are the segments in words."""
        return Trajectory(
            id=self._task.id,
            task=self._task.task,
            seed=self._task.seed,
            outcome=outcome,
            policy_first=self._first,
            policy_last=self._last,
            segments=tuple(self._segments),
            truncated=self._truncated,
            meta={"texts": self._texts, **meta},
        )

    def lengths(self) -> dict[SegmentKind, int]:
        """Tokens of each kind so far."""
        total: dict[SegmentKind, int] = {"prompt": 0, "policy": 0, "tool": 0}
        for segment in self._segments:
            total[segment.kind] += len(segment.tokens)
        return total

    def _request(self, max_tokens: int, stop: Sequence[str]) -> Request:
        encoded = {text: self._tokenizer.encode(text) for text in stop}
        return Request(
            prompt=[token for segment in self._segments for token in segment.tokens],
            max_tokens=max_tokens,
            seed=turn_seed(self._task.seed, self._turns),
            stop=[text for text, tokens in encoded.items() if len(tokens) != 1],
            stop_tokens=[tokens[0] for tokens in encoded.values() if len(tokens) == 1],
        )

    def _heard(self, completion: Completion) -> Turn:
        self._turns += 1
        self._replica = completion.replica
        self._first = self._first or completion.first
        self._last = completion.last
        self._truncated |= not completion.finished
        text = self._tokenizer.decode(completion.tokens)
        self._add("policy", text, completion.tokens, completion.logprobs)
        return Turn(text, completion.tokens, completion.finished)

    def _add(
        self, kind: SegmentKind, text: str, tokens: Sequence[int], logprobs: tuple[float, ...] | None = None
    ) -> None:
        if tokens:
            self._segments.append(Segment(kind=kind, tokens=tuple(tokens), logprobs=logprobs))
            self._texts.append(text)
