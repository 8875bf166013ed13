"""TensorBoard figures of each step, under names that people who come from other trainers recognise."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from torch.utils.tensorboard import SummaryWriter

from steelyard_workers.messages import Experience
from steelyard_workers.trainer.policy import Update


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
        """Name -> value. `dropped` counts trajectories that were too old and went back to be made anew."""
        trajectories = [experience for group in self.groups for experience in group]
        rewards = [[experience.reward for experience in group] for group in self.groups]
        scalars = {
            "reward_mean": fmean(experience.reward for experience in trajectories),
            "zero_std_ratio": fmean(float(pstdev(group) == 0) for group in rewards),
            "kl": self.update.kl,
            "sampler_trainer_logp_diff": self.update.logp_difference,
            "entropy": self.update.entropy,
            "completion_tokens": fmean(experience.policy_tokens for experience in trajectories),
            "truncated_ratio": fmean(float(bool(experience.meta.get("truncated"))) for experience in trajectories),
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


class Board:
    """The event files of a job; after a resume the figures of steps that were lost are hidden."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, figures: StepFigures) -> None:
        """Add one step."""
        for name, value in figures.scalars.items():
            self._writer.add_scalar(name, value, figures.step)
        self._writer.flush()

    def close(self) -> None:
        """Everything is on disk."""
        self._writer.close()
