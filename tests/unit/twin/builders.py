"""Small runs of the digital twin: name only what the test is about."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from steelyard.api import Allocation
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import best_split
from steelyard.twin.profiles import Profile, RewardServer, Spread, Tools, Trainer, profile

STEPS = 12


def a_profile(**changes: Any) -> Profile:
    """A short run of the steady profile."""
    return replace(profile("steady"), **{"steps": STEPS, **changes})


def finished(setup: Profile, allocation: Allocation | None = None, seed: int = 1) -> Pipeline:
    pipeline = Pipeline(setup, allocation or best_split(setup), seed)
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
