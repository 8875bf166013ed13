"""Proof that an engine computes with the weights it was told to load.

Next to each version's weights the trainer leaves `canary.json`: {"tokens": [t0 … tn], "logprobs": [l1 … ln]}, li being
the log-probability, by the trainer's own forward pass with those weights, of ti after t0 … ti-1. The sampler asks its
engine for the same figures after each update. An update can report success and leave old weights in place (a tied
output layer on CPUs, for one); only the numbers tell.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from steelyard_workers.sampler.checkpoint import Torn

FILE = "canary.json"
FLOAT32_TOLERANCE = 1e-3
REDUCED_TOLERANCE = 0.03
"""What arithmetic may cause, as a share of the log-probabilities' own size (plus one): float32 engines agree with the
trainer to four decimals; two correct implementations in 16 bits differ by about a hundredth of a logit."""
TELLING = 3.0
"""Two versions can be told apart when they differ by this many times the difference seen between engine and trainer."""


@dataclass(frozen=True)
class Canary:
    """Fixed tokens and what one version of the weights makes of them."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The canary of a version; None when the trainer left none. Raises Torn when it is not what it should be."""
        try:
            content = json.loads((folder / FILE).read_bytes())
            canary = cls(tuple(map(int, content["tokens"])), tuple(map(float, content["logprobs"])))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Torn(f"{folder / FILE}: {type(error).__name__}: {error}") from error
        if len(canary.tokens) < 2 or len(canary.logprobs) != len(canary.tokens) - 1:
            raise Torn(f"{folder / FILE}: want one log-probability for each token but the first")
        return canary


@dataclass(frozen=True)
class Sighting:
    """What an engine said, and what the trainer had said about the same weights."""

    canary: Canary
    measured: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Mean absolute difference in nats; infinite when the engine gave no number."""
        return _distance(self.measured, self.canary.logprobs)

    @property
    def scale(self) -> float:
        """One and the mean size of the log-probabilities: arithmetic errs in proportion to it."""
        return 1 + sum(map(abs, self.canary.logprobs)) / len(self.canary.logprobs)

    def objection(self, tolerance: float, before: "Sighting | None") -> str | None:
        """Why these cannot be the weights of the canary, None when they can.

        `before` is the sighting of the version that was in place until now. Steps are small, so old weights can pass
        for new ones within the tolerance: when the two versions differ by more than the engine's own error, the
        engine must be nearer to the new one.
        """
        allowed = tolerance * self.scale
        if not self.difference <= allowed:
            return f"log-probabilities differ by {self.difference:.3g} nats from the trainer's, allowed {allowed:.3g}"
        if before is not None and before.canary.tokens == self.canary.tokens:
            step = _distance(before.canary.logprobs, self.canary.logprobs)
            to_old = _distance(self.measured, before.canary.logprobs)
            if step > TELLING * before.difference and to_old < self.difference:
                return (
                    f"the engine still computes with the version before ({to_old:.3g} nats away, {step:.3g} expected)"
                )
        return None


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other) or not all(map(math.isfinite, one)):
        return math.inf
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(other)
