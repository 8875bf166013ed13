"""The arguments of the algorithm, and the job that a worker reads, are refused by name when they are wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.local import job_json
from steelyard_workers.config import JobConfig
from steelyard_workers.termination import UserError
from steelyard_workers.trainer.settings import Settings


def test_arguments_come_as_text_and_have_defaults() -> None:
    settings = Settings.parse({"learningRate": "3e-4", "microBatch": "4", "precision": "bfloat16"})
    assert (settings.learning_rate, settings.micro_batch, settings.precision) == (3e-4, 4, "bfloat16")
    assert (Settings.parse({}).clip, Settings.parse({}).precision) == (0.2, "float32")


BAD = {
    "an unknown name": ({"learningrate": "1"}, "args.learningrate: Extra .*; GRPO takes learningRate,"),
    "a word for a number": ({"learningRate": "fast"}, "args.learningRate: .*number"),
    "a number that is none": ({"learningRate": "nan"}, "args.learningRate: .*finite"),
    "a negative rate": ({"learningRate": "-1"}, "args.learningRate: .*greater than or equal to 0"),
    "an empty micro-batch": ({"microBatch": "0"}, "args.microBatch: .*greater than or equal to 1"),
    "an unknown precision": ({"precision": "int8"}, "args.precision: .*'float32' or 'bfloat16'"),
}


@pytest.mark.parametrize(("args", "words"), BAD.values(), ids=BAD)
def test_a_wrong_argument_is_refused_by_name(args: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Settings.parse(args)


def load(folder: Path, job: dict[str, Any] | str) -> JobConfig:
    path = folder / "job.json"
    path.write_text(job if isinstance(job, str) else json.dumps(job))
    return JobConfig.load(path)


def test_a_worker_reads_what_it_obeys_and_ignores_the_rest(tmp_path: Path) -> None:
    job = job_json(algorithm={"promptsPerStep": 4, "groupSize": 2, "maxStaleness": 2})
    job["spec"]["stages"]["trainer"] = {"replicas": {"max": 1}, "ofANewerRelease": True}
    config = load(tmp_path, job)
    assert (config.batch, config.open_limit) == (8, 24)


def test_a_job_that_is_none_is_refused_with_the_field(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"job\.json: spec\.algorithm\.groupSize: .*greater than or equal to 2"):
        load(tmp_path, job_json(algorithm={"groupSize": 1}))
    with pytest.raises(UserError, match="Invalid JSON"):
        load(tmp_path, "{")
    with pytest.raises(UserError, match="No such file"):
        JobConfig.load(tmp_path / "nowhere.json")
