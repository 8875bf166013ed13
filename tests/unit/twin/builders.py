"""Small runs of the digital twin: name only what the test is about."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from steelyard.api import Allocation
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import split
from steelyard.twin.profiles import Profile, RewardServer, Spread, Tools, Trainer, profile

STEPS = 12


def a_profile(**changes: Any) -> Profile:
    """A short run of the steady profile, a quarter of its batch."""
    return replace(profile("steady"), **{"steps": STEPS, "prompts_per_step": 4, "environments": 5, **changes})


def finished(setup: Profile, allocation: Allocation | None = None, seed: int = 1) -> Pipeline:
    """The run after its last step; where its allocation does not matter, the one the steady profile starts with."""
    pipeline = Pipeline(setup, allocation or split(setup, 8, 4, 28), seed)
    pipeline.run_until(inf)
    return pipeline


def flow_only(**changes: Any) -> Profile:
    """Samplers are all that takes time."""
    return a_profile(
        tools=Tools(()),
        reward=RewardServer(seconds=Spread(0.001)),
        trainer=Trainer(gpu_seconds=0.001, step_seconds=0.001),
        cluster=replace(profile("steady").cluster, sync_seconds=0.0),
        **changes,
    )
