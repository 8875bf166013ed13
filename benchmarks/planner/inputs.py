"""The inputs every planner gets: one distribution of trajectory lengths, drawn as histories and as fresh batches.

Lognormal generated lengths (sigma 0.9), mean total about 11.1K tokens, at most 40,960, 512 trajectories a step: the
inputs under which Libra's planner was timed.
"""

from __future__ import annotations

import numpy as np

from steelyard.balance.coldstart.lengths import Lengths

BATCH = 512
CONTEXT = 40_960
HISTORY_SEED = 7
GPUS = (8, 48, 128, 256, 1024, 4096)
REQUESTS = (128, 512, 4096)


def draw(seed: int, requests: int) -> Lengths:
    """`requests` trajectories of the distribution, in order of arrival."""
    generator = np.random.default_rng(seed)
    generated = 10_000 * np.exp(generator.normal(-0.405, 0.9, requests))
    prompts = np.exp(generator.normal(7.2, 0.4, requests))
    return Lengths(
        np.clip(prompts, 128, 4096).astype(int).astype(float), np.clip(generated, 64, 36_864).astype(int).astype(float)
    )


def history(requests: int) -> Lengths:
    """What the planner is told: `requests` past trajectories."""
    return draw(HISTORY_SEED, requests)


def batches(count: int) -> list[Lengths]:
    """Batches the planner has not seen, on which its plan is judged."""
    return [draw(900 + index, BATCH) for index in range(count)]
