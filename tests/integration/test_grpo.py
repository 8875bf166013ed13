"""The update means the same however a batch is cut and padded."""

import math

import pytest
import torch
from torch import Tensor

from steelyard_workers.trainer import grpo
from tests.unit.workers.experience import experience

VOCABULARY = 32
GROUPS = [
    [
        experience(k=0, reward=1.0, policy_tokens=(7, 8, 9, 10), logprobs=(-3.0, -3.5, -2.9, -4.0), tool=(3, 4)),
        experience(k=1, reward=0.0, policy_tokens=(7,), logprobs=(-3.4,)),
        experience(k=2, reward=0.0, policy_tokens=(11, 12, 13, 14, 15, 16), logprobs=(-3.5,) * 6),
    ],
    [
        experience(1, k=0, reward=0.25, policy_tokens=(8, 9), logprobs=(-3.2, -3.3)),
        experience(1, k=1, reward=0.75, policy_tokens=(10, 11, 12), logprobs=(-3.6, -3.4, -3.5)),
    ],
]


def rows() -> list[grpo.Row]:
    return [row for group in GROUPS for row in grpo.rows(group)]


def policy() -> torch.nn.Embedding:
    """A model of sorts: the logits of a token depend on the token alone."""
    torch.manual_seed(3)
    return torch.nn.Embedding(VOCABULARY, VOCABULARY)


def gradient(batch: grpo.Batch, shard_rows: int) -> tuple[float, Tensor]:
    model = policy()
    total = 0.0
    for shard in batch.shards(shard_rows):
        new = grpo.log_probabilities(model(shard.tokens), shard.tokens)
        loss = grpo.loss_sum(new, shard, clip=0.2) / batch.policy_tokens
        loss.backward()
        total += loss.item()
    assert model.weight.grad is not None
    return total, model.weight.grad


@pytest.mark.parametrize("shard_rows", [1, 2, 3, 5, 99])
def test_loss_and_gradient_do_not_depend_on_how_the_batch_is_cut(shard_rows: int) -> None:
    batch = grpo.collate(rows(), pad=0)
    whole, cut = gradient(batch, len(rows())), gradient(batch, shard_rows)
    assert cut[0] == pytest.approx(whole[0], abs=1e-6)
    torch.testing.assert_close(cut[1], whole[1], atol=1e-6, rtol=0)


def test_a_mean_of_the_means_of_shards_would_be_another_update() -> None:
    batch = grpo.collate(rows(), pad=0)
    parts = [gradient(grpo.collate(part, pad=0), 99)[1] for part in (rows()[:2], rows()[2:])]
    assert (sum(parts) / 2 - gradient(batch, 99)[1]).abs().max() > 3e-3


def test_padding_changes_nothing() -> None:
    short = grpo.collate(rows(), pad=0)
    long = grpo.collate([*rows(), grpo.Row([1] * 40, [0] * 40, [0.0] * 40, 0.0)], pad=0)
    torch.testing.assert_close(gradient(long, 99)[1], gradient(short, 99)[1], atol=1e-7, rtol=0)


def test_only_what_the_policy_wrote_counts() -> None:
    row = grpo.rows(GROUPS[0])[0]
    assert row.tokens == [5, 6, 7, 8, 3, 4, 9, 10]
    assert row.mask == [0, 0, 1, 1, 0, 0, 1, 1]
    assert row.old == [0.0, 0.0, -3.0, -3.5, 0.0, 0.0, -2.9, -4.0]


ADVANTAGES = {
    "two of four right": ([1, 0, 0, 1], [0.866, -0.866, -0.866, 0.866]),
    "one of four right": ([1, 0, 0, 0], [1.5, -0.5, -0.5, -0.5]),
    "all the same: nothing to learn": ([1, 1, 1], [0, 0, 0]),
    "a single one: nothing to compare with": ([1], [0]),
}


@pytest.mark.parametrize(("rewards", "want"), ADVANTAGES.values(), ids=ADVANTAGES)
def test_advantages_are_normalised_within_the_group(rewards: list[float], want: list[float]) -> None:
    assert grpo.advantages(rewards) == pytest.approx(want, abs=1e-3)


CLIPS = {  # ratio, advantage -> loss of the one token
    "inside the clip": (1.1, 1.0, -1.1),
    "a good token beyond the clip gains no more": (1.5, 1.0, -1.2),
    "a bad token below the clip loses no more": (0.5, -1.0, 0.8),
    "a bad token beyond the clip is still pushed down": (1.5, -1.0, 1.5),
    "a good token below the clip is still pulled up": (0.5, 1.0, -0.5),
}


@pytest.mark.parametrize(("ratio", "advantage", "want"), CLIPS.values(), ids=CLIPS)
def test_the_clip(ratio: float, advantage: float, want: float) -> None:
    batch = grpo.collate([grpo.Row([1, 2], [0, 1], [0.0, -2.0], advantage)], pad=0)
    new = torch.tensor([[-2.0 + math.log(ratio)]])
    assert grpo.loss_sum(new, batch, clip=0.2).item() == pytest.approx(want, abs=1e-6)


def test_an_impossible_prompt_token_cannot_poison_the_loss() -> None:
    batch = grpo.collate([grpo.Row([1, 2, 3], [0, 0, 1], [0.0, 0.0, -2.0], 1.0)], pad=0)
    new = torch.tensor([[200.0, -2.0]])  # exp(200) is infinite in float32
    assert grpo.loss_sum(new, batch, clip=0.2).item() == pytest.approx(-1.0)
