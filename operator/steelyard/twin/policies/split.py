"""A split in whole units: sampler replicas, reward replicas, and blocks of the trainer's GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from steelyard.api import Allocation, Stage
from steelyard.twin.jobs import split, trainer_gpus
from steelyard.twin.profiles import Profile


@dataclass(frozen=True, slots=True)
class Units:
    """What a policy scales. The environment holds no GPUs and has the same replicas under every policy."""

    sampler: int
    reward: int
    blocks: int

    @classmethod
    def of(cls, profile: Profile, allocation: Allocation) -> Self:
        return cls(
            allocation.replicas(Stage.SAMPLER),
            allocation.replicas(Stage.REWARD_SERVER),
            trainer_gpus(profile, allocation) // profile.trainer.block,
        )

    def allocation(self, profile: Profile) -> Allocation:
        """The split that these units make; the trainer has the largest of its sizes that its blocks reach."""
        blocks = self.blocks * profile.trainer.block
        sizes = [size for size in profile.trainer.sizes if size <= blocks]
        return split(profile, self.sampler, self.reward, max(sizes, default=min(profile.trainer.sizes)))

    def gpus(self, profile: Profile) -> int:
        prices = profile.sampler.gpus, profile.reward.gpus, profile.trainer.block
        return self.sampler * prices[0] + self.reward * prices[1] + self.blocks * prices[2]

    def started(self, before: Self) -> int:
        """Units that must be started to come here from `before`."""
        return (
            max(self.sampler - before.sampler, 0)
            + max(self.reward - before.reward, 0)
            + max(self.blocks - before.blocks, 0)
        )
