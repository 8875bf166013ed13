"""`steelyard twin` as people and scripts meet it: exit codes, streams, formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from tests.unit.cli.documents_of_runs import Twin

RECORDED = Path(__file__).parents[2] / "property" / "twin" / "recordings" / "calculator.json"


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["twin", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


QUICK = ("--profile", "steady", "--gpus", "24", "--steps", "2", "--policy", "uniform")


def test_data_goes_to_stdout_and_progress_to_stderr() -> None:
    code, out, err = run(*QUICK, "-o", "json")
    (found,) = Twin.model_validate(json.loads(out)).items
    assert code == 0
    assert (found.profile, found.gpus, found.steps, found.seed) == ("steady", 24, 2, 1)
    assert [row.policy for row in found.policies] == ["uniform"]
    assert "uniform" in err


def test_the_same_seed_prints_the_same_bytes() -> None:
    assert run(*QUICK, "--seed", "7", "-o", "json")[1] == run(*QUICK, "--seed", "7", "-o", "json")[1]


def test_the_table_is_one_row_a_policy() -> None:
    code, out, _ = run(*QUICK)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line] == ["policy", "uniform"]


def test_the_page_goes_into_a_file_and_nothing_to_stdout(tmp_path: Path) -> None:
    file = tmp_path / "twin.html"
    code, out, err = run(*QUICK, "-o", str(file))
    assert (code, out) == (0, "")
    assert "open it in a browser" in err
    assert file.read_text().startswith("<!doctype html>")


BAD = {
    "an unknown profile": (("--profile", "drfit"), "'drfit'"),
    "an unknown policy": ((*QUICK[:-1], "best"), "'best'"),
    "a recording that is not there": (("--recording", "nowhere.json"), "nowhere.json"),
    "no GPUs": (("--gpus", "0"), "--gpus"),
    "more GPUs than a job may use": (("--gpus", "1001"), "--gpus"),
    "GPUs for two stages": (("--gpus", "6"), "take 7"),
    "an output that does not exist": (("-o", "xml"), "xml"),
    "a page in no folder": (("-o", "nowhere/page.html"), "there is no folder nowhere"),
    "a trace for a recording": (("--recording", "a.json", "--trace", "b.csv"), "--trace: means nothing beside --rec"),
    "a profile for a recording": (("--recording", "a.json", "--profile", "drift"), "--profile: means nothing beside"),
    "GPUs for a recording": (("--recording", "a.json", "--gpus", "48"), "--gpus: means nothing beside --recording"),
    "one policy of all": (("--compare", "--policy", "uniform"), "--policy: means nothing beside --compare"),
}


@pytest.mark.parametrize(("arguments", "names"), BAD.values(), ids=BAD)
def test_bad_input_is_named_on_stderr_and_exits_2(arguments: tuple[str, ...], names: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert names in err


def test_a_file_that_is_no_recording_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"windows": []}')
    code, _, err = run("--recording", str(file))
    assert code == 2
    assert "job: Field required" in err


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"steelyard_stage_seconds_total":{', '"renamed":{', "windows[0].rates: reward-server has no pod with metrics"),
        ('"sampler":{"whole":2}', '"sampler":{}', "allocation.sampler: 0 GPU profiles in use"),
        ('"sampler":{"whole":2}', '"sampler":{"half":2}', "allocation.sampler: half is none of the job's profiles"),
        ('"environment":{"default":2}', '"environment":{}', "allocation.environment: 0 GPU profiles in use"),
    ],
    ids=["no samples", "no samplers", "an unknown profile", "no environments"],
)
def test_a_recording_that_tells_too_little_names_the_field(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = RECORDED.read_text()
    assert old in text
    file = tmp_path / "run.json"
    file.write_text(text.replace(old, new))
    code, out, err = run("--recording", str(file), "--steps", "2", "--policy", "uniform")
    assert (code, out) == (2, "")
    assert says in err


def test_trajectories_come_from_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("trajectory,turn,input_tokens_added,output_tokens\n1,0,50,20\n1,1,10,20\n")
    runs = (run(*QUICK, *more, "-o", "json")[1] for more in (("--trace", str(file)), ()))
    short, usual = (json.loads(out)["items"][0] for out in runs)
    assert short["policies"][0]["throughput"] > usual["policies"][0]["throughput"]


def test_a_trace_may_begin_with_the_mark_that_spreadsheets_write(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("\ufefftrajectory,turn,input_tokens_added,output_tokens\n1,0,50,20\n")
    assert run(*QUICK, "--trace", str(file))[0] == 0


def test_a_malformed_trace_names_row_and_column(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("trajectory,turn,input_tokens_added,output_tokens\n1,0,50,none\n")
    code, _, err = run("--trace", str(file))
    assert code == 2
    assert "row 2, column output_tokens: 'none'" in err
