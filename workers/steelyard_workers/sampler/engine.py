"""The engine as the follower needs it, and vLLM in that role: called inside its own process, no HTTP in between."""

import itertools
from pathlib import Path
from typing import Any, Protocol

from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler.canary import FLOAT32_TOLERANCE, REDUCED_TOLERANCE

BEFORE_ALL_OTHERS = -1


class Engine(Protocol):
    """What the follower asks of an inference engine."""

    @property
    def tolerance(self) -> float:
        """How far its log-probabilities may be from the trainer's, as a share of their size."""

    async def pause(self) -> None:
        """Freeze requests where they are and forget all cached attention states, which belong to the old weights."""

    async def load(self, folder: Path, version: PolicyVersion) -> None:
        """Replace the weights. When it raises, the engine is not to be resumed before another load succeeded."""

    async def resume(self) -> None:
        """Go on with frozen and new requests."""

    async def logprobs(self, tokens: tuple[int, ...]) -> tuple[float, ...]:
        """The log-probability of each token but the first, after those before it."""


class VllmEngine:
    """vLLM's engine client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._numbers = itertools.count()

    @property
    def tolerance(self) -> float:
        """By the type that the model computes in."""
        return FLOAT32_TOLERANCE if str(self._client.model_config.dtype) == "torch.float32" else REDUCED_TOLERANCE

    async def pause(self) -> None:
        """vLLM clears its caches with the pause and computes frozen requests anew when they resume."""
        await self._client.pause_generation(mode="keep", clear_cache=True)

    async def load(self, folder: Path, version: PolicyVersion) -> None:
        """One update with all tensors."""
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        await self._client.start_weight_update()
        await self._client.update_weights(WeightTransferUpdateRequest(update_info={"path": str(folder)}))
        await self._client.finish_weight_update(weight_version=str(version))

    async def resume(self) -> None:
        """Let the scheduler run."""
        await self._client.resume_generation()

    async def logprobs(self, tokens: tuple[int, ...]) -> tuple[float, ...]:
        """Asked as prompt log-probabilities, which vLLM never takes from its prefix cache."""
        from vllm import SamplingParams, TokensPrompt

        answer = None
        async for output in self._client.generate(
            TokensPrompt(prompt_token_ids=list(tokens)),
            SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0),
            f"steelyard-canary-{next(self._numbers)}",
            priority=BEFORE_ALL_OTHERS,
        ):
            answer = output
        assert answer is not None
        found = zip(answer.prompt_logprobs[1:], tokens[1:], strict=True)
        return tuple(float(candidates[token].logprob) for candidates, token in found)
