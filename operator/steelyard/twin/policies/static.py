"""Splits that never change: the same for every stage, the best for the start, the best in hindsight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import inf

from steelyard.api import Allocation
from steelyard.twin.jobs import splits, truth
from steelyard.twin.policies.split import Units
from steelyard.twin.profiles import Profile
from steelyard.twin.run import Static, run

MOST_SIMULATIONS = 10
"""Splits that one search simulates at most."""
START_STEPS = 30
"""Length of the simulations that look for the best split of the initial workload."""


def uniform(profile: Profile) -> Units:
    """Equal GPUs for each GPU stage: unit by unit to whoever has the fewest, while one fits."""
    units, grown = None, Units(1, 1, 1)
    while units != grown:
        units = grown
        by_gpus = (
            (units.sampler * profile.sampler.gpus, replace(units, sampler=units.sampler + 1)),
            (units.reward * profile.reward.gpus, replace(units, reward=units.reward + 1)),
            (units.blocks * profile.trainer.block, replace(units, blocks=units.blocks + 1)),
        )
        fitting = [(gpus, more) for gpus, more in by_gpus if _fits(profile, more)]
        grown = min(fitting, key=lambda one: one[0], default=(0, units))[1]
    return grown


def _fits(profile: Profile, units: Units) -> bool:
    largest = max(profile.trainer.sizes)
    return units.gpus(profile) <= profile.gpus and units.blocks * profile.trainer.block <= largest


def initial_workload(profile: Profile) -> Profile:
    """A shorter run whose workload stays as it is at the start."""
    return replace(profile, growth=1.0, shape="steady", steps=min(profile.steps, START_STEPS))


@lru_cache(maxsize=64)
def initial(profile: Profile, seed: int) -> Units:
    """The best static split for the workload at the start: a shorter run decides."""
    frozen = initial_workload(profile)
    return _search(frozen, seed, [_promising(frozen, (0,))])


@lru_cache(maxsize=64)
def hindsight(profile: Profile, seed: int) -> Units:
    """The best static split for the whole run of this seed."""
    first = initial(profile, seed)
    tenths = tuple(round(share * (profile.steps - 1) / 10) for share in range(11))
    return _search(profile, seed, [_promising(profile, tenths), first])


def _promising(profile: Profile, steps: tuple[int, ...]) -> Units:
    """The split with which the true model finishes these steps soonest."""
    models = [truth(profile, step) for step in steps]

    def seconds(allocation: Allocation) -> float:
        rates = [model.promise(allocation).throughput for model in models]
        return sum(1 / rate if rate > 0 else inf for rate in rates)

    return Units.of(profile, min(splits(profile), key=seconds))


def _search(profile: Profile, seed: int, starts: Iterable[Units]) -> Units:
    """Hill climbing by simulation: a unit or two go from one stage to another while the run gets faster."""
    known: dict[Units, float] = {}

    def throughput(units: Units) -> float:
        if units not in known:
            known[units] = run(profile, Static(), seed, units.allocation(profile)).throughput
        return known[units]

    best = max(starts, key=throughput)
    improved = True
    while improved and len(known) < MOST_SIMULATIONS:
        improved = False
        for near in _neighbours(profile, best):
            if len(known) >= MOST_SIMULATIONS:
                break
            if throughput(near) > throughput(best):
                best, improved = near, True
                break
    return best


def _neighbours(profile: Profile, units: Units) -> Iterator[Units]:
    """Splits that use the budget and differ by one exchange, the small ones first."""

    def reach(other: Units) -> int:
        blocks = 2 * abs(other.blocks - units.blocks)
        return abs(other.sampler - units.sampler) + abs(other.reward - units.reward) + blocks

    found = {Units.of(profile, allocation) for allocation in splits(profile)}
    near = [other for other in found if other != units and abs(other.blocks - units.blocks) <= 1 and reach(other) <= 6]
    yield from sorted(near, key=lambda other: (reach(other), other.sampler, other.reward))
