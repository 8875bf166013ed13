"""How the trainer's rate grows with its replicas: a power law until three sizes were seen, then fitted.

The fit is Gunther's universal scalability law, f(n) = f(1)·n / (1 + sigma·(n-1) + kappa·n·(n-1)): sigma is the share
of the work that only one replica can do, kappa what every pair pays to agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from steelyard.balance.stairs import Amount

EXPONENT = 0.9
"""f(n) = f(n0)·(n/n0)^0.9 before three sizes were seen."""
SIZES_NEEDED = 3
LEAST_RATE, LARGEST_RATE = 1e-15, 1e15
"""Beyond these the fit would overflow; no trainer of ours gets there."""
ALIKE = 1.25
"""Sizes compare when their trajectories' lengths differ by no more than this factor: drift must not pass as scaling."""


@dataclass(frozen=True, slots=True)
class TrainerSize:
    """What the trainer did at one size."""

    replicas: int
    rate: float
    """Samples per second, all replicas together."""
    tokens: float
    """Generated tokens of a trajectory at that time."""


@dataclass(frozen=True, slots=True)
class TrainerCurve:
    """What one of n replicas does relative to a single one. Without `contention` it is the power law."""

    contention: float | None = None
    coherency: float = 0.0

    def efficiency(self, replicas: Amount) -> Amount:
        """f(n) / (n·f(1)) for at least one replica."""
        if self.contention is None:
            power: Amount = replicas ** (EXPONENT - 1)
            return power
        return 1 / (1 + self.contention * (replicas - 1) + self.coherency * replicas * (replicas - 1))

    def speedup(self, replicas: float) -> float:
        """f(n) / f(1), 0 for no replica."""
        return replicas * self.efficiency(float(replicas)) if replicas > 0 else 0.0


def fitted(now: TrainerSize, before: Iterable[TrainerSize]) -> TrainerCurve:
    """The curve through the size of `now` and those seen `before` (oldest first; of each size the newest counts)."""
    sizes = {size.replicas: size for size in before if _comparable(size, now)} | {now.replicas: now}
    usable = [size for size in sizes.values() if size.replicas > 0 and LEAST_RATE < size.rate < LARGEST_RATE]
    return _least_squares(usable) if len(usable) >= SIZES_NEEDED else TrainerCurve()


def _comparable(size: TrainerSize, now: TrainerSize) -> bool:
    return max(size.tokens, now.tokens) <= ALIKE * min(size.tokens, now.tokens)


def _least_squares(sizes: Sequence[TrainerSize]) -> TrainerCurve:
    """n/f(n) is linear in 1/f(1), sigma/f(1) and kappa/f(1); relative residuals, and no coefficient below zero.

    With two coefficients that may stick at zero, the best of the four faces is the constrained optimum.
    """
    n = np.array([size.replicas for size in sizes], dtype=float)
    times = n / np.array([size.rate for size in sizes])
    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1) / times[:, None]
    best, least = np.array([1.0, 0.0, 0.0]), np.inf
    for free in product((False, True), repeat=2):
        face = np.array([True, *free])
        found = np.zeros(3)
        found[face] = np.linalg.lstsq(columns[:, face], np.ones_like(n), rcond=None)[0]
        residual = float(np.sum((columns @ found - 1) ** 2))
        if found[0] > 0 and (found >= 0).all() and residual < least:
            best, least = found, residual
    return TrainerCurve(float(best[1] / best[0]), float(best[2] / best[0]))
