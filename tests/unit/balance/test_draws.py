"""Draws evaluated together are what each moved model promises alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from statistics import fmean, pstdev

import numpy as np
import pytest

from steelyard.api import Allocation, Stage
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.draws import DRAWS, LARGEST_MOVE, Draws, normal_points
from steelyard.balance.model import Estimate, Model
from tests.unit.balance.builders import START
from tests.unit.balance.test_model import LATENCY, a_model


def one_by_one(model: Model) -> Iterator[Model]:
    """The model with every estimate moved by its own error, written out for one draw at a time."""
    slots = [(stage, profile) for stage, profiles in model.capacities.rates.items() for profile in profiles]
    for deviations in normal_points(len(slots) + 1).T:
        rates: dict[Stage, dict[str, Estimate]] = {stage: {} for stage in model.capacities.rates}
        for (stage, profile), deviation in zip(slots, deviations, strict=False):
            one = model.capacities.rates[stage][profile]
            rates[stage][profile] = replace(one, value=one.value * factor(one.error, deviation))
        latency = {
            name: replace(
                one,
                alpha=one.alpha * one.capacity / rates[Stage.SAMPLER][name].value,
                beta=one.beta * one.capacity / rates[Stage.SAMPLER][name].value,
            )
            for name, one in model.capacities.latency.items()
            if name in rates.get(Stage.SAMPLER, {})
        }
        longer, asked = factor(model.workload.error, deviations[-1]), model.workload
        workload = replace(
            asked,
            tokens=asked.tokens * longer,
            outside_seconds=asked.outside_seconds * longer,
            waiting_seconds=asked.waiting_seconds * longer,
            overhead_seconds=asked.overhead_seconds * longer,
        )
        yield replace(model, workload=workload, capacities=replace(model.capacities, rates=rates, latency=latency))


def factor(error: float, deviations: float) -> float:
    return exp(min(max(error * deviations, -LARGEST_MOVE), LARGEST_MOVE))


def uncertain(**changes: object) -> Model:
    """Every estimate has an error of its own, and a second sampler profile is half as fast."""
    model = a_model()
    slice_ = TokenLatency(2 * LATENCY.alpha, 2 * LATENCY.beta, LATENCY.most)
    rates = {
        Stage.SAMPLER: {"whole": Estimate(LATENCY.capacity, 0.2), "slice": Estimate(slice_.capacity, 0.3)},
        Stage.REWARD_SERVER: {"whole": Estimate(4.0, 0.1), "slice": Estimate(2.0, 0.5)},
        Stage.TRAINER: {"whole": Estimate(8.0, 0.05)},
    }
    capacities = replace(model.capacities, rates=rates, latency={"whole": LATENCY, "slice": slice_})
    return replace(model, capacities=capacities, workload=replace(model.workload, error=0.15), **changes)  # type: ignore[arg-type]


BUSY = START.replace(Stage.ENVIRONMENT, {"default": 9})
SPLITS = {
    "the episodes bind": (uncertain(), START),
    "the judge binds": (uncertain(), BUSY),
    "two profiles of samplers": (uncertain(), BUSY.replace(Stage.SAMPLER, {"whole": 1, "slice": 2})),
    "several trainer ranks": (uncertain(), BUSY.replace(Stage.TRAINER, {"whole": 3})),
    "a profile that nothing is known of": (uncertain(), BUSY.replace(Stage.SAMPLER, {"other": 2})),
    "a backlog": (uncertain(catching_up={Stage.REWARD_SERVER: 0.5}), BUSY),
    "a backlog that takes all": (uncertain(catching_up={Stage.REWARD_SERVER: 50.0}), BUSY),
    "no latency": (replace(uncertain(), capacities=replace(uncertain().capacities, latency={})), BUSY),
    "nothing runs": (uncertain(), Allocation()),
}


@pytest.mark.parametrize("case", SPLITS)
def test_draws_together_are_what_each_moved_model_promises(case: str) -> None:
    model, split = SPLITS[case]
    alone = [one.throughput(split) for one in one_by_one(model)]
    assert Draws(model).throughput(split) == pytest.approx(alone, rel=1e-12)


def test_draws_are_centred_on_the_estimate_and_spread_by_its_error() -> None:
    drawn = Draws(replace(uncertain(), workload=a_model().workload)).rates[Stage.SAMPLER, "whole"]
    assert len(drawn) == DRAWS
    assert fmean(map(log, drawn)) == pytest.approx(log(LATENCY.capacity))
    assert pstdev(map(log, drawn)) == pytest.approx(0.2, rel=0.03)


@pytest.mark.parametrize("dimensions", [1, 2, 5, 11, 25, 40, 100])
def test_no_estimate_is_moved_more_than_another_or_with_another(dimensions: int) -> None:
    """Four stages with ten profiles have 40. Of a sequence's first points the rows were off by up to 0.7 standard
    errors, and neighbours moved together (0.97)."""
    points = normal_points(dimensions)
    assert points.shape == (dimensions, DRAWS)
    assert np.abs(points.mean(axis=1)).max() < 1e-9
    assert np.sort(points, axis=1)[:, DRAWS // 10] == pytest.approx(np.full(dimensions, -1.2816), abs=0.03)
    if 1 < dimensions < DRAWS:
        assert np.abs(np.corrcoef(points) - np.eye(dimensions)).max() < 0.05
