"""The exact max-min allocation of one job: `offers` has the search, this what is preferred among equals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.api import Stage
from steelyard.balance.offers import Choice, Offers, Point, Resource, best_level, costs_of, pick
from steelyard.balance.stairs import Units

HEADROOM = 1.10
"""Stages off the bottleneck keep at least so much more than the throughput, where the budget allows."""
EFFICIENT = 0.97
"""Efficiency takes the cheapest allocation with at least this share of the best throughput."""
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best that the choices allow within the budget."""

    throughput: float
    points: Mapping[Stage, Point]

    def taken(self, resource: int) -> int:
        """Units of a resource that all stages take together; 0 is the GPUs."""
        return sum(point.costs[resource] for point in self.points.values())


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No allocation fits, and the constraint that says so."""

    constraint: str


def allocate(
    choices: Mapping[Stage, Choice], resources: Sequence[Resource], *, efficient: bool = False
) -> Optimum | Infeasible:
    """The best allocation for the objective, and among equally good ones the one with the fewest moves and GPUs.

    Throughput takes GPUs from a stage only when another stage takes them: it changes as few stages as possible and
    shrinks them no further than needed. Efficiency takes the cheapest allocation that is nearly as good.
    """
    empty = [stage for stage, choice in choices.items() if not choice.runs and choice.now is None]
    if empty:
        return Infeasible(f"{empty[0]} has no allowed number of replicas")
    costs = {stage: costs_of(choice) for stage, choice in choices.items()}
    budget = np.array([resource.budget for resource in resources], dtype=np.int64)
    most = sum(one.max(axis=0) for one in costs.values())
    binding = [0, *np.flatnonzero((most > budget)[1:]) + 1]
    stages = {stage: Offers.of(choice, costs[stage], binding) for stage, choice in choices.items()}
    offers = list(stages.values())
    throughput = best_level(offers, budget)
    if throughput is None:
        return Infeasible(_what_lacks(stages, resources))
    level = throughput * (EFFICIENT if efficient else 1) * (1 - TINY)
    picked = pick(offers, budget, level, fewest_moves_first=not efficient)
    if not efficient:
        picked = _spend_rest(offers, picked, budget, throughput)
    points = {stage: one.point(index) for (stage, one), index in zip(stages.items(), picked, strict=True)}
    return Optimum(min(float(one.rates[index]) for one, index in zip(offers, picked, strict=True)), points)


def _spend_rest(stages: Sequence[Offers], picked: Sequence[int], budget: Units, throughput: float) -> list[int]:
    """Use GPUs that are left for the changed stages: first headroom, then back towards what they had."""
    picks = list(picked)
    enough = HEADROOM * throughput
    for place, (offers, chosen) in enumerate(zip(stages, picked, strict=True)):
        if offers.is_now(chosen):
            continue
        taken = sum(one.costs[index] for one, index in zip(stages, picks, strict=True))
        gpus, mine, rate = offers.costs[:, 0], int(offers.costs[chosen, 0]), offers.rates[chosen]
        wanted = max(mine, int(gpus[0])) if offers.is_now(0) else mine
        fits = (offers.costs <= offers.costs[chosen] + (budget - taken)).all(axis=1)
        better = np.flatnonzero(
            fits & (gpus > mine) & (offers.rates >= rate) & ((gpus <= wanted) | bool(rate < enough))
        )
        if len(better):
            rates = offers.rates[better]
            picks[place] = int(better[np.lexsort((-rates, abs(gpus[better] - wanted), rates < enough))[0]])
    return picks


def _what_lacks(stages: Mapping[Stage, Offers], resources: Sequence[Resource]) -> str:
    """The resource that the smallest allowed allocation exceeds, by how much, and the stage that takes most of it."""
    for index, resource in enumerate(resources):
        least = {stage: int(offers.costs[:, index].min()) for stage, offers in stages.items()}
        total = sum(least.values())
        if total > resource.budget:
            heaviest = max(least, key=lambda stage: least[stage])
            return (
                f"the smallest allowed allocation takes {resource.amount(total)} {resource.name} of a budget of "
                f"{resource.amount(resource.budget)}, {resource.amount(total - resource.budget)} too many; "
                f"{heaviest} takes at least {resource.amount(least[heaviest])}"
            )
    names = " and ".join(resource.name for resource in resources)
    return f"no mix of the allowed profiles fits {names} together, though it fits each of them alone"
