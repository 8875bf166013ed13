"""TRL is the oracle of the loss: the same batch, the same policy, the same loss and gradients.

TRL's token-mean loss is a mean over what one backward sees, so it is comparable as one whole batch only.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from steelyard_workers.messages import Experience
from steelyard_workers.trainer import grpo
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.settings import Settings
from tests.integration.small_policy import small_model
from tests.unit.workers.experience import experience

TOLERANCE = 1e-5
PROMPT, LONGEST = 3, 9

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]  # TRL warns much and imports for long


def groups() -> list[list[Experience]]:
    """Two groups of four with tools, lengths and rewards of all kinds; log-probabilities far enough off to clip."""
    torch.manual_seed(11)
    made = []
    for group in range(2):
        members = []
        for k in range(4):
            count = 2 + (3 * k + group) % 6
            tokens = tuple(torch.randint(3, 32, (count,)).tolist())
            old = tuple((-3.47 + 0.4 * torch.randn(count)).tolist())
            tool = tuple(range(4, 4 + k)) if k % 2 else ()
            reward = float((k + group) % 3) / 2
            members.append(
                experience(group, k, reward=reward, prompt=(5, 6, 7), policy_tokens=tokens, logprobs=old, tool=tool)
            )
        made.append(members)
    return made


def ours(model: Path, batch: list[list[Experience]], micro_batch: int) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of one update at learning rate 0."""
    args = {"learningRate": "0", "maxGradNorm": "1e9", "microBatch": str(micro_batch)}
    policy = Policy(model, Settings.parse(args))
    update = policy.update([row for group in batch for row in grpo.rows(group)])
    return update.loss, {name: value.grad for name, value in policy.model.named_parameters()}


def trl(model: Path, batch: list[list[Experience]]) -> tuple[float, dict[str, torch.Tensor]]:
    """The same from TRL, whose advantages are computed here as its documentation defines them."""
    from datasets import Dataset  # type: ignore[import-untyped]
    from tokenizers import Tokenizer, models
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    vocabulary = {str(token): token for token in range(32)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="0")), pad_token="0", eos_token="1"
    )
    config = GRPOConfig(
        output_dir=str(model / "trl"),
        use_cpu=True,
        bf16=False,
        report_to=[],
        loss_type="bnpo",
        beta=0.0,
        num_generations=4,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        model=policy,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "1"}] * 8),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer._compute_loss(policy.eval(), inputs(batch))
    loss.backward()
    return loss.item(), {name: value.grad for name, value in policy.named_parameters()}


def inputs(batch: list[list[Experience]]) -> dict[str, Any]:
    """The batch as TRL prepares one: completions padded on the right, tool tokens masked apart."""
    rewards = torch.tensor([[member.reward for member in group] for group in batch])
    spread = rewards.std(dim=1, keepdim=True)
    rows = [row for group in batch for row in grpo.rows(group)]

    def completions(values: list[list[int]] | list[list[float]]) -> torch.Tensor:
        return torch.tensor([[*value[PROMPT:], *[0] * (PROMPT + LONGEST - len(value))] for value in values])

    present = [[1] * len(row.tokens) for row in rows]
    return {
        "prompt_ids": torch.tensor([row.tokens[:PROMPT] for row in rows]),
        "prompt_mask": torch.ones(len(rows), PROMPT, dtype=torch.long),
        "completion_ids": completions([row.tokens for row in rows]),
        "completion_mask": completions(present),
        "tool_mask": completions([row.mask for row in rows]),
        "old_per_token_logps": completions([row.old for row in rows]),
        "advantages": ((rewards - rewards.mean(dim=1, keepdim=True)) / (spread + 1e-4)).flatten(),
    }


def test_loss_and_gradients_equal_those_of_trl_however_our_batch_is_cut(tmp_path: Path) -> None:
    model, batch = small_model(tmp_path / "model"), groups()
    loss, gradients = trl(model, batch)
    assert max(value.abs().max().item() for value in gradients.values()) > 100 * TOLERANCE, "not a comparison of zeros"
    for micro_batch in (8, 3):
        our_loss, our_gradients = ours(model, batch, micro_batch)
        assert our_loss == pytest.approx(loss, abs=TOLERANCE)
        assert our_gradients.keys() == gradients.keys()
        for name, value in gradients.items():
            torch.testing.assert_close(our_gradients[name], value, atol=TOLERANCE, rtol=0, msg=name)
