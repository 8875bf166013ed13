"""A job's TensorBoard."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from steelyard_workers.trainer.figures import StepFigures


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
