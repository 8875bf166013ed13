"""What a job says about its model and GPUs, so that the operator expects something before it has measured it."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard.api.base import Model

Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


class Planning(Model):
    """Rows of the cold-start planner, and the lengths to expect."""

    model: Literal["qwen2-5-3b", "qwen2-5-7b", "qwen3-14b", "qwen3-30b-a3b", "qwen3-4b"]
    """The model's architecture."""
    hardware: Literal["a100-80g", "a800-80g", "ascend-910b3", "h100-80g"]
    """The GPU that every profile of the job consists of."""
    prompt_tokens: Tokens = 1024
    """Tokens given to the policy in a trajectory: the prompt and what tools return."""
    output_tokens: Tokens | None = None
    """Mean tokens that the policy writes in a trajectory. With it a sampler without `initial` starts as planned."""
