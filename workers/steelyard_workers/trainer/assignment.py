"""What a trainer is asked to do, read and checked before torch is imported: the user's mistakes are said at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from steelyard_workers.config import JobConfig, Place
from steelyard_workers.termination import UserError
from steelyard_workers.trainer.dataset import Dataset
from steelyard_workers.trainer.settings import Settings


@dataclass(frozen=True)
class Assignment:
    """The job, where it is, how to learn and from what."""

    job: JobConfig
    place: Place
    settings: Settings
    dataset: Dataset

    @classmethod
    def read(cls) -> Self:
        """Of the environment; UserError names the field, file or folder that is wrong."""
        job, place = JobConfig.load(), Place.from_environment()
        settings = Settings.parse(job.spec.algorithm.args)
        dataset = Dataset.load(place.tasks, job.spec.algorithm.seed)
        _check_model(place.model)
        return cls(job, place, settings, dataset)


def _check_model(folder: Path) -> None:
    """That there is one; what is in it, transformers judges later."""
    if not folder.is_dir():
        raise UserError(f"model {folder}: is no folder")
    if not (folder / "config.json").is_file():
        raise UserError(f"model {folder}: no config.json in it")
