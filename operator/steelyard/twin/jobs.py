"""The job that a profile is, and the true model of its pipeline."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Allocation
from steelyard.balance.model import Model
from steelyard.twin.profiles import Profile

SAMPLER, REWARD = "pair", "single"
"""Names of the only GPU profile of the samplers and of the reward servers."""


def trainer_profile(gpus: int) -> str:
    """Name of the trainer's GPU profile of that size."""
    return f"x{gpus}"


def split(samplers: int, judges: int, trainer_gpus: int, environments: int) -> Allocation:
    """The allocation with so many replicas, and a trainer of that size."""
    return Allocation.model_validate(
        {
            "sampler": {SAMPLER: samplers},
            "rewardServer": {REWARD: judges},
            "trainer": {trainer_profile(trainer_gpus): 1},
            "environment": {"default": environments},
        }
    )


def splits(profile: Profile) -> list[Allocation]:
    """Every split of the budget: for each trainer size and number of judges, as many samplers as fit."""
    raise NotImplementedError


def truth(profile: Profile, step: int) -> Model:
    """The model of the pipeline without error at policy version `step`: for oracles, never for the balance."""
    raise NotImplementedError


def best_split(profile: Profile, step: int = 0) -> Allocation:
    """The split that the true model finds best at `step`."""
    raise NotImplementedError


def job_of(profile: Profile) -> AgenticRLJob:
    """The job, valid against the API; it starts at `best_split(profile)`."""
    raise NotImplementedError
