"""Joint draws of a model's estimates along a low-discrepancy sequence: no chance, the same answer each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import exp
from statistics import NormalDist

from steelyard.api import Stage
from steelyard.balance.model import Estimate, Model, TokenLatency

DRAWS = 32
LARGEST_MOVE = 20.0


def draws(model: Model) -> Iterator[Model]:
    """The model with every estimate moved by its own error, `DRAWS` times.

    A rate moves on a log scale, so it stays positive. Token latency moves with the capacity that follows from it.
    """
    names = [(stage, profile) for stage, profiles in model.capacities.rates.items() for profile in profiles]
    for deviations in normal_points(len(names) + 1):
        factors = {
            name: _factor(model.capacities.rates[name[0]][name[1]].error, deviation)
            for name, deviation in zip(names, deviations, strict=False)
        }
        rates = {
            stage: {name: Estimate(one.value * factors[stage, name], one.error) for name, one in profiles.items()}
            for stage, profiles in model.capacities.rates.items()
        }
        latency = {
            name: _scaled(one, one.capacity / rates[Stage.SAMPLER][name].value)
            for name, one in model.capacities.latency.items()
            if name in rates.get(Stage.SAMPLER, {})
        }
        slower = _factor(model.workload.error, deviations[-1])
        yield replace(
            model,
            workload=replace(
                model.workload,
                outside_seconds=model.workload.outside_seconds * slower,
                waiting_seconds=model.workload.waiting_seconds * slower,
                overhead_seconds=model.workload.overhead_seconds * slower,
            ),
            capacities=replace(model.capacities, rates=rates, latency=latency),
        )


@cache
def normal_points(dimensions: int) -> tuple[tuple[float, ...], ...]:
    """`DRAWS` points of standard normal deviates: the additive sequence of the generalised golden ratio, inverted."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    invert = NormalDist().inv_cdf
    return tuple(
        tuple(invert((0.5 + point * ratio**-axis) % 1.0 or 0.5) for axis in range(1, dimensions + 1))
        for point in range(1, DRAWS + 1)
    )


def _factor(error: float, deviations: float) -> float:
    return exp(min(max(error * deviations, -LARGEST_MOVE), LARGEST_MOVE))


def _scaled(latency: TokenLatency, slower: float) -> TokenLatency:
    return replace(latency, alpha=latency.alpha * slower, beta=latency.beta * slower)
