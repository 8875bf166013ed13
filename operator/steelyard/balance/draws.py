"""What a model promises if its estimates are off by their errors: joint draws, a Latin hypercube without correlations.

No chance is involved, so the same model has the same draws each time; they are evaluated together, as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import sqrt
from statistics import NormalDist

import numpy as np

from steelyard.api import Stage
from steelyard.balance.closed_loop import TokenLatencies
from steelyard.balance.model import SERVING, Model, Split, main_profile
from steelyard.balance.stairs import Floats, Numbers, cleaned

DRAWS = 64
LARGEST_MOVE = 20.0
GOLDEN = (sqrt(5) - 1) / 2
TINY = 1e-6
"""Keeps the correlations of more rows than draws invertible."""
UNTANGLED = 4
"""So often are the draws freed of correlations; each time putting them in ranks again brings a little back."""


class Draws:
    """The model with every estimate moved by its own error, `DRAWS` times.

    A rate moves on a log scale, so it stays positive. Token latency moves with the capacity that follows from it. An
    episode that asks for more slot seconds asks for more tokens: to samplers that is the same as being slower.
    """

    def __init__(self, model: Model) -> None:
        estimates = {(stage, name): one for stage, of in model.capacities.rates.items() for name, one in of.items()}
        errors = np.array([*(one.error for one in estimates.values()), model.workload.error])
        factors = np.exp(np.clip(normal_points(len(errors)) * errors[:, None], -LARGEST_MOVE, LARGEST_MOVE))
        self.model = model
        self.slower: Floats = factors[-1]
        """Factor on the slot seconds of an episode in each draw."""
        self.rates: Mapping[tuple[Stage, str], Floats] = {
            slot: one.value * factor / (self.slower if slot[0] is Stage.SAMPLER else 1.0)
            for (slot, one), factor in zip(estimates.items(), factors, strict=False)
        }
        """Units per second of one replica in each draw; of samplers, tokens of an episode as it was measured."""

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
    """Standard normal deviates, dimensions x `DRAWS`: each row the same quantiles, in an order that has next to nothing
    to do with that of any other row (Iman and Conover 1982).

    A sequence of points would not do: it fills many dimensions only after many more points than anybody evaluates, and
    until then its rows are far from centred and follow each other.
    """
    quantiles = np.array([NormalDist().inv_cdf((rank + 0.5) / DRAWS) for rank in range(DRAWS)])
    places = np.arange(dimensions * DRAWS, dtype=np.float64).reshape(dimensions, DRAWS)
    points = _ranked(GOLDEN * places**2 % 1.0, quantiles)
    for _ in range(UNTANGLED if dimensions > 1 else 0):
        tangle = np.linalg.cholesky(np.corrcoef(points) + TINY * np.eye(dimensions))
        points = _ranked(np.linalg.solve(tangle, points), quantiles)
    points.setflags(write=False)  # shared by all callers
    return points


def _ranked(rows: Floats, quantiles: Floats) -> Floats:
    """`quantiles`, in each row in the order of its values."""
    ranked: Floats = quantiles[rows.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")]
    return ranked
