"""What the stages of one job may take together: its GPUs and, when known, CPU and memory of the namespace's quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from typing import Any

from steelyard.api import AgenticRLJobSpec, Stage
from steelyard.api.quantities import parse_quantity
from steelyard.balance.offers import Resource

MOST_UNITS = 2**50
"""Units of a budget, so that sums of prices stay within 64 bits; finer units than that are rounded, against the job."""
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
    slots = [(stage, profile) for stage in Stage for profile in spec.stage(stage).profiles]
    needs = {(stage, profile): [spec.stage(stage).profiles[profile]] for stage, profile in slots}
    asked = {slot: requests(spec, *slot) if quota else {} for slot in slots}
    named = [name for name in sorted(quota) if any(name in one for one in asked.values())]
    for slot, amounts in needs.items():
        amounts += [asked[slot].get(name, Fraction(0)) for name in named]
    budgets = [spec.budget.gpus, *(quota[name] for name in named)]
    scales = [_scale(budget, column) for budget, column in zip(budgets, zip(*needs.values(), strict=True), strict=True)]
    prices: dict[Stage, dict[str, tuple[int, ...]]] = {stage: {} for stage in Stage}
    for (stage, profile), amounts in needs.items():
        prices[stage][profile] = tuple(
            min(-floor(-amount * scale), MOST_UNITS) for amount, scale in zip(amounts, scales, strict=True)
        )
    words = [("GPUs", 1), *(SPOKEN.get(name, (name, 1)) for name in named)]
    resources = [
        Resource(name, min(floor(budget * scale), MOST_UNITS), float(scale * unit))
        for (name, unit), budget, scale in zip(words, budgets, scales, strict=True)
    ]
    return Purse(tuple(resources), prices)


def _scale(budget: Fraction, prices: Sequence[Fraction]) -> Fraction:
    """Units of one GPU, core or byte in which budget and prices are whole, as far as 64 bits allow."""
    whole = lcm(*(amount.denominator for amount in (budget, *prices)))
    return min(Fraction(whole), MOST_UNITS / max(budget, Fraction(1)))


def requests(spec: AgenticRLJobSpec, stage: Stage, profile: str) -> dict[str, Fraction]:
    """What a quota counts for one replica: the profile's resources and those that the user's template adds.

    A limit without a request is also the request, as the API server has it. Init containers run before the others, so
    only what the largest of them needs more counts. What cannot be read counts nothing: the API server refuses it.
    """
    of = spec.stage(stage)
    chosen = next((one for one in of.gpu_profiles if one.name == profile), None)
    ours = {name: _amount(value) for name, value in chosen.resources.items()} if chosen else {}
    pod = _mapping(_mapping(of.template).get("spec"))
    containers = {one.get("name"): _requested(one) for one in _objects(pod.get("containers"))}
    total = _total([{**ours, **containers.pop(WORKER, {})}, *containers.values()])
    for first in map(_requested, _objects(pod.get("initContainers"))):
        total |= {name: max(amount, total.get(name, Fraction(0))) for name, amount in first.items()}
    return {name: amount for name, amount in total.items() if amount > 0}


def _total(parts: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _requested(container: Mapping[str, Any]) -> dict[str, Fraction]:
    resources = _mapping(container.get("resources"))
    written = {**_mapping(resources.get("limits")), **_mapping(resources.get("requests"))}
    return {name: _amount(value) for name, value in written.items()}


def _amount(written: Any) -> Fraction:
    try:
        return parse_quantity(written)
    except ValueError:
        return Fraction(0)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
