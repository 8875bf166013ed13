"""The policy under training: a transformers model, its optimiser and one update per batch."""

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from steelyard_workers.termination import UserError
from steelyard_workers.trainer import grpo
from steelyard_workers.trainer.figures import Update
from steelyard_workers.trainer.limits import Limits
from steelyard_workers.trainer.settings import Settings

WEIGHTS = "model.safetensors"
SIDE_FILES = ("*.json", "*.jinja", "*.txt", "*.model")  # configuration and tokenizer: what else makes a model folder
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SHAPING = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)

log = logging.getLogger(__name__)


class Policy:
    """Model and optimiser on one device. Not safe to use from two threads at a time."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self.dtype = DTYPES[settings.precision]
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._config = AutoConfig.from_pretrained(folder, local_files_only=True)
            self.model = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, dtype=torch.float32, attn_implementation="sdpa"
            )
        except (OSError, ValueError, SafetensorError) as error:
            raise UserError(f"model {folder}: {error}") from error
        log.info("training on %s", torch.cuda.get_device_name() if self.device.type == "cuda" else "the CPU")
        self.model.to(self.device).eval()  # no dropout: the sampler has none
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    @property
    def limits(self) -> Limits:
        """What trajectories must keep to."""
        return Limits(int(self._config.vocab_size), getattr(self._config, "max_position_embeddings", None))

    def update(self, rows: Sequence[grpo.Row]) -> Update:
        """One optimiser step on a whole batch, shard by shard in a fixed order."""
        batch = grpo.collate(rows, pad=self._config.pad_token_id or 0).to(self.device)
        denominator = batch.policy_tokens
        totals = torch.zeros(5, device=self.device)
        self.optimizer.zero_grad(set_to_none=True)
        for shard in batch.shards(self._settings.micro_batch):
            logits = self._logits(shard)
            new = grpo.log_probabilities(logits, shard.tokens)
            loss = grpo.loss_sum(new, shard, self._settings.clip) / denominator
            loss.backward()
            totals += torch.stack([loss.detach(), *self._observe(logits.detach(), new.detach(), shard)])
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._settings.max_grad_norm)
        for group in self.optimizer.param_groups:  # a resumed optimiser brings the rate it was saved with
            group["lr"], group["weight_decay"] = self._settings.learning_rate, self._settings.weight_decay
        if norm.isfinite():
            self.optimizer.step()
        else:
            log.warning("gradient norm %s: this step changes no weights", float(norm))
        entropy, kl, difference, clipped = (totals[1:] / denominator).tolist()
        return Update(
            loss=float(totals[0]),
            gradient_norm=float(norm),
            entropy=entropy,
            kl=kl,
            logp_difference=difference,
            clipped_ratio=clipped,
            policy_tokens=int(denominator),
            total_tokens=int(batch.attention.sum()),
        )

    def save(self, folder: Path, dtype: torch.dtype) -> None:
        """Write a model folder: weights as `dtype`, configuration, tokenizer."""
        for pattern in SIDE_FILES:
            for path in self._folder.glob(pattern):
                if not path.name.endswith(".index.json"):
                    shutil.copyfile(path, folder / path.name)
        state = {name: value.detach().to("cpu", dtype) for name, value in self._weights().items()}
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})

    def log_probabilities(self, tokens: Sequence[int]) -> list[float]:
        """Of each token but the first, given those before it."""
        row = torch.tensor([tokens], device=self.device)
        with torch.no_grad(), self._arithmetic():
            logits = self.model(row, use_cache=False).logits
        found: list[float] = grpo.log_probabilities(logits, row)[0].tolist()
        return found

    def restore(self, folder: Path) -> None:
        """Take the weights of a folder that `save` wrote; UserError when they are of another model."""
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        expected = self._config.to_dict()
        differences = [
            f"{name} {found.get(name)} instead of {expected.get(name)}"
            for name in SHAPING
            if found.get(name) != expected.get(name)
        ]
        if differences:
            raise UserError(f"checkpoint {folder} is of another model: {', '.join(differences)}")
        state = load_file(folder / WEIGHTS, device=str(self.device))
        missing = set(self._weights()).symmetric_difference(state)
        if missing:
            raise UserError(f"checkpoint {folder} is of another model: only one of the two has {min(missing)}")
        self.model.load_state_dict(state, strict=False)

    def _logits(self, shard: grpo.Batch) -> Tensor:
        with self._arithmetic():
            logits: Tensor = self.model(shard.tokens, attention_mask=shard.attention, use_cache=False).logits
        return logits

    def _arithmetic(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.dtype is torch.bfloat16)

    def _weights(self) -> dict[str, Tensor]:
        """Every tensor once: a tied head is the embedding under another name, and safetensors holds no aliases."""
        seen: set[int] = set()
        weights = {}
        for name, value in self.model.state_dict().items():
            if value.data_ptr() not in seen:
                seen.add(value.data_ptr())
                weights[name] = value
        return weights

    def _observe(self, logits: Tensor, new: Tensor, shard: grpo.Batch) -> list[Tensor]:
        """Sums over the policy tokens: entropy, KL estimate, |log-probability difference|, clipped tokens."""
        mask, old = shard.mask[:, 1:], shard.old[:, 1:]
        entropy = torch.stack([_entropy(row) for row in logits[:, :-1]])
        difference = (new - old) * mask
        kl = torch.exp(difference) - 1 - difference  # an estimate, never below 0, from the sampler's own tokens
        clipped = (torch.exp(difference) - 1).abs() > self._settings.clip
        return [(value * mask).sum() for value in (entropy, kl, difference.abs(), clipped.float())]


def _entropy(logits: Tensor) -> Tensor:
    """Of each token of one row [length, vocabulary]; a whole shard at once would take several times its logits."""
    spread = torch.log_softmax(logits.float(), -1)
    return -(spread.exp() * spread).sum(-1)
