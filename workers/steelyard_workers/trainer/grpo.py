"""The mathematics of GRPO: advantages of a group, the clipped loss, one token mean over the whole batch. Pure.

The meaning of an update does not depend on how a batch is cut into shards: every shard divides by the policy tokens of
the whole batch, the gradients of the shards are summed in their order, and only the sum is clipped. (A mean per shard
and then a mean of shards weighs tokens of short shards more.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard_workers.messages import Experience

STD_FLOOR = 1e-4


@dataclass(frozen=True)
class Row:
    """One trajectory as the policy sees it. `mask` marks policy tokens; `old` are the sampler's log-probabilities."""

    tokens: list[int]
    mask: list[int]
    old: list[float]
    advantage: float


@dataclass(frozen=True)
class Batch:
    """Rows, right-padded to the longest of the whole batch. Shapes [rows, length], advantages [rows, 1].

    `mask` and `old` belong to the token in the same place; the first token of a row is nobody's prediction.
    """

    tokens: Tensor
    attention: Tensor
    mask: Tensor
    old: Tensor
    advantages: Tensor

    @property
    def policy_tokens(self) -> Tensor:
        """What the loss is divided by: the policy tokens of the whole batch."""
        return self.mask[:, 1:].sum()

    def shards(self, rows: int) -> list["Batch"]:
        """The batch cut into pieces of so many rows, the last perhaps shorter."""
        cut = [field.split(rows) for field in (self.tokens, self.attention, self.mask, self.old, self.advantages)]
        return [Batch(*pieces) for pieces in zip(*cut, strict=True)]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        fields = (self.tokens, self.attention, self.mask, self.old, self.advantages)
        return Batch(*(field.to(device) for field in fields))


def advantages(rewards: Sequence[float]) -> list[float]:
    """(r - mean) / (std + floor) within one group, with the sample's standard deviation."""
    values = torch.tensor(rewards, dtype=torch.float32)
    spread = values.std() if len(rewards) > 1 else values.new_zeros(())
    normalised: list[float] = ((values - values.mean()) / (spread + STD_FLOOR)).tolist()
    return normalised


def rows(group: Sequence[Experience]) -> list[Row]:
    """The rows of a group's trainable trajectories."""
    scores = advantages([experience.reward for experience in group])
    return [_row(experience, advantage) for experience, advantage in zip(group, scores, strict=True)]


def _row(experience: Experience, advantage: float) -> Row:
    tokens: list[int] = []
    mask: list[int] = []
    old: list[float] = []
    for segment in experience.segments:
        is_policy = segment.kind == "policy"
        tokens += segment.tokens
        mask += [int(is_policy)] * len(segment.tokens)
        old += segment.logprobs if is_policy and segment.logprobs else [0.0] * len(segment.tokens)
    return Row(tokens, mask, old, advantage)


def collate(batch: Sequence[Row], pad: int) -> Batch:
    """Pad rows to one length, which depends on the batch alone."""
    length = max(len(row.tokens) for row in batch)

    def padded(values: list[list[int]] | list[list[float]], fill: float, dtype: torch.dtype) -> Tensor:
        return torch.tensor([[*row, *[fill] * (length - len(row))] for row in values], dtype=dtype)

    return Batch(
        tokens=padded([row.tokens for row in batch], pad, torch.long),
        attention=padded([[1] * len(row.tokens) for row in batch], 0, torch.long),
        mask=padded([row.mask for row in batch], 0, torch.float32),
        old=padded([row.old for row in batch], 0.0, torch.float32),
        advantages=torch.tensor([[row.advantage] for row in batch], dtype=torch.float32),
    )


def log_probabilities(logits: Tensor, tokens: Tensor) -> Tensor:
    """log p(token t | tokens before t) for t >= 1. logits [rows, length, vocabulary] -> [rows, length - 1]."""
    predicted = logits[:, :-1].float()
    chosen = predicted.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    return chosen - predicted.logsumexp(-1)


def loss_sum(new: Tensor, shard: Batch, clip: float) -> Tensor:
    """Sum over the policy tokens of -min(ratio A, clip(ratio) A), ratio = p_new / p_sampler per token.

    Dividing by `policy_tokens` of the whole batch is the caller's. The mask enters the exponent too, so that padding
    cannot make an infinity that a multiplication by zero would turn into NaN.
    """
    mask = shard.mask[:, 1:]
    ratio = torch.exp((new - shard.old[:, 1:]) * mask)
    gain = torch.min(ratio * shard.advantages, ratio.clamp(1 - clip, 1 + clip) * shard.advantages)
    return -(gain * mask).sum()
