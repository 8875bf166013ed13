"""A job small enough to be simulated in every test."""

from dataclasses import replace

from steelyard.twin.profiles import Profile, profile


def small(name: str = "drift", gpus: int = 24, steps: int = 6) -> Profile:
    """Eight trajectories a step instead of 128."""
    return replace(profile(name, gpus), prompts_per_step=4, group_size=2, steps=steps)
