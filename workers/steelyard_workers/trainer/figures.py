"""What a step did, in numbers: for metrics, the log and TensorBoard."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from steelyard_workers.messages import Experience


@dataclass(frozen=True)
class Update:
    """What one step did. Means are over the policy tokens of the batch."""

    loss: float
    gradient_norm: float
    entropy: float
    kl: float
    logp_difference: float
    clipped_ratio: float
    policy_tokens: int
    total_tokens: int


@dataclass(frozen=True)
class StepFigures:
    """One step as the loop saw it: what it trained on, what it did and how long that took."""

    step: int
    groups: Sequence[Sequence[Experience]]
    lags: Sequence[int]
    update: Update
    learning_rate: float
    requeued: int
    seconds: float
    waited_seconds: float
    interval_seconds: float | None

    @property
    def scalars(self) -> dict[str, float]:
        """Name -> value, under names that people who come from other trainers recognise.

        `dropped` counts trajectories that were too old for this step and went back to be made anew; `truncated_ratio`
        is the share of those that were cut off, by max_tokens or maxTurns.
        """
        trajectories = [experience for group in self.groups for experience in group]
        rewards = [[experience.reward for experience in group] for group in self.groups]
        scalars = {
            "reward_mean": fmean(experience.reward for experience in trajectories),
            "zero_std_ratio": fmean(float(pstdev(group) == 0) for group in rewards),
            "kl": self.update.kl,
            "sampler_trainer_logp_diff": self.update.logp_difference,
            "entropy": self.update.entropy,
            "completion_tokens": fmean(experience.policy_tokens for experience in trajectories),
            "truncated_ratio": fmean(float(experience.truncated) for experience in trajectories),
            "staleness_versions": fmean(self.lags),
            "dropped": float(self.requeued),
            "stage_wait_seconds": self.waited_seconds,
            "loss": self.update.loss,
            "grad_norm": self.update.gradient_norm,
            "clip_ratio": self.update.clipped_ratio,
            "learning_rate": self.learning_rate,
            "step_seconds": self.seconds,
        }
        if self.interval_seconds:
            scalars["tokens_per_gpu_second"] = self.update.total_tokens / self.interval_seconds
        return scalars
