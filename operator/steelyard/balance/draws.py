"""What a model promises if its estimates are off by their errors: joint draws along a low-discrepancy sequence.

No chance is involved, so the same model has the same draws each time; they are evaluated together, as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import NormalDist

import numpy as np

from steelyard.api import Stage
from steelyard.balance.closed_loop import TokenLatencies
from steelyard.balance.model import SERVING, Model, Split, main_profile
from steelyard.balance.stairs import Floats, Numbers, cleaned

DRAWS = 32
LARGEST_MOVE = 20.0


class Draws:
    """The model with every estimate moved by its own error, `DRAWS` times.

    A rate moves on a log scale, so it stays positive. Token latency moves with the capacity that follows from it.
    """

    def __init__(self, model: Model) -> None:
        estimates = {(stage, name): one for stage, of in model.capacities.rates.items() for name, one in of.items()}
        errors = np.array([*(one.error for one in estimates.values()), model.workload.error])
        factors = np.exp(np.clip(normal_points(len(errors)) * errors[:, None], -LARGEST_MOVE, LARGEST_MOVE))
        self.model = model
        self.rates: Mapping[tuple[Stage, str], Floats] = {
            slot: one.value * factor for (slot, one), factor in zip(estimates.items(), factors, strict=False)
        }
        """Units per second of one replica in each draw."""
        self.slower: Floats = factors[-1]
        """Factor on the slot seconds of an episode in each draw."""

    def throughput(self, split: Split) -> Floats:
        """`Model.throughput` of each draw."""
        slots = sum(split[Stage.ENVIRONMENT].values()) * self.model.capacities.slots
        with np.errstate(all="ignore"):
            carried = np.minimum.reduce([self._rate(stage, split[stage]) for stage in SERVING])
            looped = self.model.looped(*self._serving(split[Stage.SAMPLER]), slots, self.slower)
            return cleaned(np.minimum(carried, looped))

    def _serving(self, samplers: Mapping[str, int]) -> tuple[Numbers, TokenLatencies | None]:
        """Replicas in units of the main profile, and its token latency in each draw when it is identified."""
        main = main_profile(samplers)
        latency, capacity = self.model.identified(main), self.rates.get((Stage.SAMPLER, main))
        if latency is None or capacity is None:
            return 0.0, None
        slower = latency.capacity / capacity
        alike = np.zeros(DRAWS)
        for profile, replicas in samplers.items():
            if profile in self.model.capacities.latency and (Stage.SAMPLER, profile) in self.rates:
                alike = alike + self.rates[Stage.SAMPLER, profile] * replicas
        return alike / capacity, TokenLatencies(latency.alpha * slower, latency.beta * slower, capacity)

    def _rate(self, stage: Stage, counts: Mapping[str, int]) -> Floats:
        units = np.zeros(DRAWS)
        for profile, replicas in counts.items():
            if (stage, profile) in self.rates:
                units = units + self.rates[stage, profile] * replicas
        total = np.array(max(sum(counts.values()), 1), dtype=np.float64)
        return np.where(units > 0, np.maximum(self.model.carried(stage, units, total), 0.0), 0.0)


@cache
def normal_points(dimensions: int) -> Floats:
    """Standard normal deviates, dimensions x `DRAWS`: an additive sequence (generalised golden ratio), inverted."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    invert = NormalDist().inv_cdf
    points = np.array(
        [
            [invert((0.5 + point * ratio**-axis) % 1.0 or 0.5) for point in range(1, DRAWS + 1)]
            for axis in range(1, dimensions + 1)
        ]
    )
    points.setflags(write=False)  # shared by all callers
    return points
