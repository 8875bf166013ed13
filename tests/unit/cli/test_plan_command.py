"""`steelyard plan` as people and scripts meet it: exit codes, streams, formats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.api import AgenticRLJob, Stage
from steelyard.cli import app
from tests.unit.cli.documents_of_runs import Plan

KNOWN = ["plan", "--model", "qwen3-14b", "--hardware", "a800-80g"]


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*KNOWN, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def test_the_table_tells_the_split_and_what_was_left_out() -> None:
    code, out, err = run("--gpus", "48")
    assert code == 0
    assert all(word in out for word in ("sampling", "training", "5 x TP8", "TP1 x PP1 x DP8", "left out"))
    assert "A router that knew every length could use" in out
    assert "no --requests" in err


def test_json_goes_to_stdout_and_nothing_else_does() -> None:
    code, out, err = run("--gpus", "48", "-o", "json")
    (found,) = Plan.model_validate(json.loads(out)).items
    assert code == 0
    assert "no --requests" in err
    assert found.training.gpus + found.sampling.gpus + found.free_gpus == 48
    assert found.seconds >= found.sampling.tail_seconds
    assert found.mixed
    assert found.mixed.gain > 0
    assert {one.reason for one in found.pruned}


def test_lengths_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text('{"input_len": 100, "output_len": 500}\n[100, 700]\n')
    code, out, err = run("--gpus", "16", "--requests", str(file), "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["items"][0]["lengths"] == {"trajectories": 2, "meanTokens": 700, "longestTokens": 800}


@pytest.mark.parametrize("gpus", [5, 48, 1024])
@pytest.mark.parametrize("batch", [512, 96, 4096])
def test_yaml_is_a_job_that_starts_with_the_plan(gpus: int, batch: int) -> None:
    code, out, _ = run("--gpus", str(gpus), "--batch", str(batch), "-o", "yaml")
    (document,) = json.loads(run("--gpus", str(gpus), "--batch", str(batch), "-o", "json")[1])["items"]
    assert code == 0
    job = AgenticRLJob.model_validate(yaml.safe_load(out))
    assert job.spec.algorithm.batch == batch
    assert job.spec.budget.gpus == gpus
    start, prices = job.spec.initial_allocation, job.spec.gpu_prices
    (sampler,) = document["sampling"]["samplers"]
    assert start[Stage.SAMPLER] == {f"tp{sampler['tensorParallel']}": sampler["replicas"]}
    assert start.gpus(prices) == gpus - document["freeGpus"]
    assert job.spec.planning
    assert job.spec.planning.output_tokens == pytest.approx(9600, rel=0.1)


def test_yaml_of_a_mixed_plan_fixes_its_allocation() -> None:
    code, out, _ = run("--gpus", "48", "--prediction-error", "0.05", "-o", "yaml")
    assert code == 0
    assert "must send each trajectory to an engine by its length" in out
    job = AgenticRLJob.model_validate(yaml.safe_load(out))
    assert job.spec.scaling.mode == "Fixed"
    assert len(job.spec.initial_allocation[Stage.SAMPLER]) > 1
    assert job.spec.initial_allocation.gpus(job.spec.gpu_prices) <= 48


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--gpus", "3"], 3, "SY1104 3 GPUs are too few"),
        (["--gpus", "0"], 2, "gpus: 0 must lie between"),
        (["--gpus", "many"], 2, "--gpus"),
        (["--gpus", "48", "--model", "qwen3-14"], 2, "did you mean qwen3-14b"),
        (["--gpus", "48", "--hardware", "h200"], 2, "known are a100-80g"),
        (["--gpus", "48", "--requests", "nowhere.jsonl"], 2, "nowhere.jsonl: No such file"),
        (["--gpus", "48", "--sigma", "nan"], 2, "sigma: nan must lie between"),
        (["--gpus", "48", "--batch", "511", "-o", "yaml"], 3, "does not split into groups"),
        (["--gpus", "48", "--context", "9000"], 2, "output tokens: 9600 on average and prompts of 1,400 do not fit"),
        (["--gpus", "48", "--requests", "a", "--sigma", "0.9"], 2, "--sigma: means nothing beside --requests"),
        (["--gpus", "48", "--requests", "a", "--prompt-tokens", "5"], 2, "--prompt-tokens: means nothing beside"),
        (["--gpus", "48", "--prediction-error", "0.05", "--polish"], 2, "--polish: ranks plans of one TP size"),
    ],
)
def test_what_is_wrong_goes_to_stderr_with_its_exit_code(arguments: list[str], code: int, words: str) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_a_file_may_begin_with_the_mark_that_editors_write(tmp_path: Path) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text("\ufeff[100, 700]\n")
    assert run("--gpus", "16", "--requests", str(file))[0] == 0


def test_a_malformed_row_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lengths.jsonl"
    file.write_text("[100, 700]\n[100, -1]\n")
    code, _, err = run("--gpus", "48", "--requests", str(file))
    assert code == 2
    assert "requests row 2, column output_len: -1 must be a number of tokens" in err


def test_polish_still_fits_the_budget() -> None:
    code, out, _ = run("--gpus", "16", "--polish", "-o", "json")
    (document,) = json.loads(out)["items"]
    assert code == 0
    assert document["training"]["gpus"] + document["sampling"]["gpus"] + document["freeGpus"] == 16


def test_help_loads_nothing_heavy() -> None:
    check = (
        "import sys; from steelyard.cli import app; "
        "sys.exit(str([name for name in ('numpy', 'pydantic', 'rich.table', 'yaml') if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
