"""Plans anew after every step with perfect knowledge of the workload; it pays the same transition as everybody."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from steelyard.api import Allocation
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import splits, truth
from steelyard.twin.policies.split import Units
from steelyard.twin.profiles import Profile

THRESHOLDS = (0.01, 0.03, 0.1)
"""Least gains; the one that turns out best counts."""
SECONDS_PER_MOVE = 15.0
"""Old throughput that a move costs, in seconds: where the balance's own learning starts."""
ALIKE = 0.001
"""Splits within so much of the best are as good; the one with the fewest moves is taken."""


@dataclass
class Oracle:
    """Knows the true model of the policy version that generates now."""

    profile: Profile
    start: Units
    least_gain: float
    interval_seconds: float = 5.0
    """How soon it notices a step end."""

    def __post_init__(self) -> None:
        self._units, self._seen = self.start, -1

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        if pipeline.step == self._seen:
            return None
        self._seen = pipeline.step
        promised = promises(self.profile, pipeline.step)
        now = (
            promised.get(self._units)
            or truth(self.profile, pipeline.step).promise(self._units.allocation(self.profile)).throughput
        )
        most = max(promised.values())
        alike = [units for units, rate in promised.items() if rate >= (1 - ALIKE) * most]
        best = min(alike, key=lambda units: (units.started(self._units), -promised[units]))
        gain = promised[best] / now - 1
        remaining_seconds = (self.profile.steps - pipeline.step) * self.profile.batch / promised[best]
        pays = gain * remaining_seconds > SECONDS_PER_MOVE * best.started(self._units)
        if best == self._units or gain < self.least_gain or not pays:
            return None
        self._units = best
        return best.allocation(self.profile)


@lru_cache(maxsize=1024)
def promises(profile: Profile, step: int) -> dict[Units, float]:
    """What the true model promises for every split."""
    model = truth(profile, step)
    return {Units.of(profile, one): model.promise(one).throughput for one in splits(profile)}
