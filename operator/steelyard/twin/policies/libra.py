"""Libra's shipped rule (NetX-lab/Libra, c51bf84): triggers at step ends, a plan from lengths, a gate of one iteration.

What is approximated, always in its favour, stands in docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.api import Allocation, Stage
from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import truth
from steelyard.twin.policies.split import Units
from steelyard.twin.profiles import Profile

PLAN_INTERVAL_STEPS = 10
WARMUP_STEPS = 1
COOLDOWN_STEPS = 1
IMBALANCE = 1.25
"""Rollout time / training time from which a plan is looked for at any step."""
LEAST_GAIN = 0.05
RECONFIGURATION_SECONDS = 15.0
SHIPPED_GROWTH = (1.20, 1.02)
"""Exponents of the mean length in rollout and training time: its cost model gives 64 and 34 from 1K to 32K tokens."""
PUBLISHED_GROWTH = (1.31, 0.39)
"""What its paper measured, 95 and 3.9: as if the cost model knew."""
JOIN_RATIO, LEAVE_RATIO = 1.15, 0.90
"""Training time / rollout time at which hybrid units join the training, or leave it."""
ROLLOUT_FLOOR_GPUS = 8


@dataclass
class Libra:
    """Plans training and rollout; reward servers keep what they start with."""

    profile: Profile
    start: Units
    growth: tuple[float, float] = SHIPPED_GROWTH
    hybrid: bool = False
    """Whether the elastic pool acts on its signal between two plans."""
    interval_seconds: float = 5.0
    """How soon it notices a step end."""

    def __post_init__(self) -> None:
        limits = truth(self.profile, 0).promise(self.start.allocation(self.profile)).limits
        self._rollout_seconds = self.profile.batch / min(limits[Stage.SAMPLER], limits[Stage.ENVIRONMENT])
        self._training_seconds = self.profile.batch / limits[Stage.TRAINER]
        self._core, self._joined = self.start, 0
        self._seen = self._planned = 0

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        if pipeline.step == self._seen or pipeline.step <= WARMUP_STEPS:
            return None
        self._seen = pipeline.step
        longer = self.profile.factor(pipeline.step)
        rollout, training = self.seconds(self._applied, longer)
        due = pipeline.step % PLAN_INTERVAL_STEPS == 0 or rollout / training >= IMBALANCE
        if due and pipeline.step - self._planned > COOLDOWN_STEPS:
            self._plan(longer, pipeline.step)
        if self.hybrid:
            self._join(training / rollout)
        return self._applied.allocation(self.profile)

    def seconds(self, units: Units, longer: float) -> tuple[float, float]:
        """Rollout and training time of one batch whose lengths are `longer` times those of the start."""
        rollout, training = self.growth
        return (
            self._rollout_seconds * longer**rollout * self.start.sampler / units.sampler,
            self._training_seconds * longer**training * self.start.blocks / units.blocks,
        )

    @property
    def _applied(self) -> Units:
        """The core pools, with the hybrid units that joined the training."""
        lent = -(-self._joined * self.profile.trainer.block // self.profile.sampler.gpus)
        return Units(self._core.sampler - lent, self._core.reward, self._core.blocks + self._joined)

    def _plan(self, longer: float, step: int) -> None:
        best = min(self._candidates(), key=lambda units: (max(self.seconds(units, longer)), units.blocks))
        old, new = max(self.seconds(self._core, longer)), max(self.seconds(best, longer))
        if old - new > RECONFIGURATION_SECONDS and (old - new) / old >= LEAST_GAIN:
            self._core, self._joined, self._planned = best, 0, step

    def _candidates(self) -> Iterator[Units]:
        block, gpus = self.profile.trainer.block, self.profile.sampler.gpus
        for size in self.profile.trainer.sizes:
            samplers = (self.profile.gpus - self.start.reward * self.profile.reward.gpus - size) // gpus
            if samplers > 0:
                yield Units(samplers, self.start.reward, size // block)

    def _join(self, ratio: float) -> None:
        """The elastic pool's signal: everything joins, everything leaves, or nothing changes."""
        if ratio >= JOIN_RATIO:
            above_floor = self._core.sampler * self.profile.sampler.gpus - ROLLOUT_FLOOR_GPUS
            room = max(self.profile.trainer.sizes) // self.profile.trainer.block - self._core.blocks
            self._joined = max(min(above_floor // self.profile.trainer.block, room), 0)
        elif ratio <= LEAVE_RATIO:
            self._joined = 0
