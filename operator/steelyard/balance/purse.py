"""What the stages of one job may take together: its GPUs and, when known, CPU and memory of the namespace's quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, lcm
from typing import Any

from steelyard.api import AgenticRLJobSpec, Stage
from steelyard.api.quantities import parse_quantity
from steelyard.api.stages import StageSpec
from steelyard.balance.offers import Resource

MOST_UNITS = 2**50
"""Units of a budget, so that sums of prices stay within 64 bits; finer units than that are rounded, against the job."""
NOTHING = Fraction(0)
WORKER = "worker"
"""The container that `children` gives the profile's resources."""
SPOKEN = {"cpu": ("CPUs", 1), "memory": ("GiB of memory", 2**30)}
"""Resources that people count in other words or units than quotas do."""


@dataclass(frozen=True)
class Purse:
    """The resources in whole units, GPUs first, and what a replica takes of each."""

    resources: tuple[Resource, ...]
    prices: Mapping[Stage, Mapping[str, tuple[int, ...]]]

    def affords(self, stage: Stage, profile: str, most: int) -> int:
        """How many replicas of a profile it would buy, `most` at most."""
        prices = self.prices[stage][profile]
        bought = [one.budget // price for one, price in zip(self.resources, prices, strict=True) if price]
        return max(min([most, *bought]), 0)

    def cost(self, stage: Stage, counts: Mapping[str, int]) -> tuple[int, ...]:
        """Units of each resource that `counts` replicas take."""
        prices = [[n * price for price in self.prices[stage][profile]] for profile, n in counts.items()]
        return tuple(sum(of_one) for of_one in zip(*prices, strict=True)) or (0,) * len(self.resources)

    def less(self, stage: Stage, counts: Mapping[str, int]) -> Purse:
        """What is left beside `counts` replicas of `stage`."""
        costs = self.cost(stage, counts)
        left = (
            Resource(one.name, one.budget - cost, one.per_one) for one, cost in zip(self.resources, costs, strict=True)
        )
        return Purse(tuple(left), self.prices)


def purse_of(spec: AgenticRLJobSpec, quota: Mapping[str, Fraction]) -> Purse:
    """`quota` by resource name, less what others use of it; a resource that no replica requests is left out."""
    needs = {(stage, profile): [gpus] for stage in Stage for profile, gpus in spec.stage(stage).profiles.items()}
    asked = {stage: requests(spec.stage(stage)) if quota else {} for stage in Stage}
    named = [name for name in sorted(quota) if any(name in one for of in asked.values() for one in of.values())]
    for (stage, profile), amounts in needs.items():
        amounts += [asked[stage][profile].get(name, NOTHING) for name in named]
    budgets = [spec.budget.gpus, *(quota[name] for name in named)]
    scales = [_scale(budget, column) for budget, column in zip(budgets, zip(*needs.values(), strict=True), strict=True)]
    prices: dict[Stage, dict[str, tuple[int, ...]]] = {stage: {} for stage in Stage}
    for (stage, profile), amounts in needs.items():
        prices[stage][profile] = tuple(
            min(-(-amount.numerator * scale // amount.denominator), MOST_UNITS)
            for amount, scale in zip(amounts, scales, strict=True)
        )
    words = [("GPUs", 1), *(SPOKEN.get(name, (name, 1)) for name in named)]
    resources = [
        Resource(name, min(budget.numerator * scale // budget.denominator, MOST_UNITS), scale * unit)
        for (name, unit), budget, scale in zip(words, budgets, scales, strict=True)
    ]
    return Purse(tuple(resources), prices)


def _scale(budget: Fraction, prices: Iterable[Fraction]) -> int:
    """Units of one GPU, core or byte in which budget and prices are whole, as far as 64 bits allow."""
    whole = lcm(*(amount.denominator for amount in (budget, *prices)))
    return max(min(whole, MOST_UNITS // max(ceil(budget), 1)), 1)


def requests(of: StageSpec) -> dict[str, dict[str, Fraction]]:
    """What a quota counts for one replica of each profile: the profile's resources and those of the user's template.

    A limit without a request is also the request, as the API server has it. Init containers run before the others, so
    only what the largest of them needs more counts. What cannot be read counts nothing: the API server refuses it.
    """
    pod = _mapping(_mapping(of.template).get("spec"))
    containers = {str(one.get("name")): _requested(one) for one in _objects(pod.get("containers"))}
    worker, others = containers.pop(WORKER, {}), _total(containers.values())
    first = [_requested(one) for one in _objects(pod.get("initContainers"))]
    shapes = {one.name: {name: _amount(value) for name, value in one.resources.items()} for one in of.gpu_profiles}
    found = {}
    for profile in of.profiles:
        total = _total([{**shapes.get(profile, {}), **worker}, others])
        for one in first:
            total |= {name: max(amount, total.get(name, NOTHING)) for name, amount in one.items()}
        found[profile] = {name: amount for name, amount in total.items() if amount}
    return found


def _total(parts: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _requested(container: Mapping[str, Any]) -> dict[str, Fraction]:
    resources = _mapping(container.get("resources"))
    written = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
    return {name: _amount(value) for name, value in written.items()}


def _amount(written: Any) -> Fraction:
    return _parsed(written) if isinstance(written, int | str) else NOTHING


@lru_cache(maxsize=1024, typed=True)
def _parsed(written: int | str) -> Fraction:
    """The same few quantities are read at every tick."""
    try:
        return parse_quantity(written)
    except ValueError:
        return NOTHING


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
