"""Publishes the policy's weights: a folder on the shared volume, then a pointer on the bus that samplers follow."""

import asyncio
import json
import shutil
from pathlib import Path

import torch

from steelyard_workers.bus_keys import Keys
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.trainer import files
from steelyard_workers.trainer.limits import Limits
from steelyard_workers.trainer.policy import Policy

POINTER = "policy"
CANARY = "canary.json"
CANARY_TOKENS = 32


class Weights:
    """The weights folder and its pointer, as the trainer of one epoch writes them."""

    def __init__(self, folder: Path, keys: Keys, keep: int, dtype: torch.dtype) -> None:
        self._folder = folder
        self._keys = keys
        self._keep = keep
        self._dtype = dtype

    async def publish(self, policy: Policy, version: PolicyVersion) -> None:
        """Make a version known. The pointer only ever moves to a higher version: Overtaken when it is beyond ours."""
        await asyncio.to_thread(self._write, policy, version)
        pointer = {"epoch": version.epoch, "step": version.step, "path": str(version)}
        await self._keys.advance(POINTER, pointer, lambda value: (value["epoch"], value["step"]))
        await asyncio.to_thread(self._tidy, version)

    def _write(self, policy: Policy, version: PolicyVersion) -> None:
        with files.whole_folder(self._folder / str(version)) as folder:
            policy.save(folder, self._dtype)
            tokens = canary_tokens(policy.limits)
            canary = {"tokens": tokens, "logprobs": policy.log_probabilities(tokens)}
            (folder / CANARY).write_text(json.dumps(canary), encoding="utf-8")

    def _tidy(self, newest: PolicyVersion) -> None:
        """Keep the newest versions up to the pointer; a sampler may still be reading the ones before it."""
        past = [path for version, path in files.versions(self._folder) if version <= newest]
        for path in past[: -self._keep]:
            shutil.rmtree(path, ignore_errors=True)


def canary_tokens(limits: Limits) -> list[int]:
    """Fixed tokens, spread over the vocabulary, whose log-probabilities prove to a sampler that it has the weights."""
    count = min(CANARY_TOKENS, limits.longest or CANARY_TOKENS)
    return [(7 + 7919 * place) % limits.vocabulary for place in range(count)]
