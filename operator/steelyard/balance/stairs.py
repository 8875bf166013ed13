"""Staircases: the points of a curve that no other beats in both price and rate. Shared by one job and the fleet."""

from __future__ import annotations

from math import floor
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Amount = TypeVar("Amount", float, Floats)
"""One number, or one for each number of replicas: the same formula serves both."""
Numbers: TypeAlias = float | Floats
"""The same where some of a formula's figures are one number and others many."""
Units: TypeAlias = NDArray[np.int64]
"""Amounts of a resource in whole units, so that sums are exact."""
Indices: TypeAlias = NDArray[np.intp]

UNITS_PER_GPU = 1000
"""The API admits GPUs in thousandths."""
MOST_GPUS = 10**9
LARGEST_RATE = 1e300


def gpu_units(gpus: float) -> int:
    """What a pool of `gpus` GPUs holds, in whole thousandths; nonsense is nothing."""
    return floor(min(gpus, MOST_GPUS) * UNITS_PER_GPU + 1e-6) if gpus > 0 else 0


def lesser(one: Numbers, other: Numbers) -> Numbers:
    """The lesser of both, entry by entry where there are many."""
    return min(one, other) if isinstance(one, float) and isinstance(other, float) else np.minimum(one, other)


def greater(one: Numbers, other: Numbers) -> Numbers:
    """The greater of both, entry by entry where there are many."""
    return max(one, other) if isinstance(one, float) and isinstance(other, float) else np.maximum(one, other)


def cleaned(rates: Floats) -> Floats:
    """Rates as the allocation can use them: what is no number or negative carries nothing, infinity is very much."""
    possible: Floats = np.fmin(np.fmax(rates, 0.0), LARGEST_RATE)  # of NaN and 0 fmax takes 0
    return possible


def records(rates: Floats) -> Indices:
    """Indices of the rates that all before them fall short of."""
    best_before = np.concatenate(([-1.0], np.maximum.accumulate(rates)[:-1]))
    found: Indices = np.flatnonzero(rates > best_before[: len(rates)])
    return found


def staircase(prices: Units, rates: Floats) -> Indices:
    """Indices of the points that no other beats in both: strictly rising prices, strictly rising rates.

    Of points alike in both the first is kept. `prices` and `rates` have one entry a point.
    """
    order = np.argsort(prices, kind="stable")
    rising = order[records(rates[order])]
    last_of_price = np.append(prices[rising][1:] != prices[rising][:-1], True)[: len(rising)]
    kept: Indices = rising[last_of_price]
    return kept
