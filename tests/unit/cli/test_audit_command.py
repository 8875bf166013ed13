"""`steelyard audit`: a page, JSON or a summary, of a job that runs, of one that is gone, of what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from steelyard.api.names import LABEL_JOB
from steelyard.audit.record import Record
from steelyard.cli import app, session
from steelyard.cli.commands import audit as command
from steelyard.cluster.kinds import JOB, REVISION
from tests.unit.audit.simulated import recorded
from tests.unit.cli.documents_of_runs import Audit as Document
from tests.unit.cli.fake_kubectl import FakeKubectl, State
from tests.unit.cli.fake_prometheus import FakePrometheus

PROFILES = ("default", "slice", "whole")
UNTIL = "2027-01-15T08:08:00Z"
Audit = Callable[..., Result]


def cluster(record: Record) -> State:
    """The job and its ledger, as far as the record has them."""
    state = State()
    if record.job is not None:
        state.objects[JOB.path("default", record.name)] = record.job.to_dict()
    for one in record.revisions:
        labelled = one.metadata.model_copy(update={"labels": {LABEL_JOB: record.name}})
        state.objects[REVISION.path("default", one.metadata.name)] = one.model_copy(
            update={"metadata": labelled}
        ).to_dict()
    return state


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Audit:
    """The command on the cluster and the Prometheus of a record."""

    def run(*arguments: str, record: Record, state: State | None = None, refused: str = "") -> Result:
        source = FakePrometheus(record, PROFILES if record.job else (), refused)
        monkeypatch.setattr(command, "opened", source.opened)
        monkeypatch.setattr(session, "from_environment", lambda *_: FakeKubectl(state or cluster(record)))
        asked = ["--for", "8m", "--until", UNTIL, "--prometheus", "http://prometheus:9090", *arguments]
        return CliRunner().invoke(app, ["audit", "calculator", *asked])

    return run


def simulated(**changes: Any) -> Record:
    return replace(recorded(), **changes)


def test_a_running_job_is_audited_as_it_was_recorded(run: Audit) -> None:
    done = run("--gpu-price", "2.5", "-o", "json", record=simulated())
    assert done.exit_code == 0, done.stderr
    (found,) = Document.model_validate(json.loads(done.stdout)).items
    assert found.verdict.startswith("The environment holds this pipeline back; ")
    assert found.gpu_hours
    assert found.gpu_hours.wasted_cost == pytest.approx(2.5 * found.gpu_hours.wasted)
    assert [one.verdict for one in found.revisions][1:] == ["Kept", "Kept"]
    assert found.reallocation.most_gain is not None
    assert set(found.record["lines"]) == set(recorded().lines)
    assert done.stderr == ""


def test_its_json_is_a_recording_that_gives_the_same_json(run: Audit, tmp_path: Path) -> None:
    written = run("-o", "json", record=simulated()).stdout
    file = tmp_path / "audit.json"
    file.write_text(written)
    again = CliRunner().invoke(app, ["audit", "--recording", str(file), "-o", "json"])
    assert json.loads(again.stdout) == json.loads(written)


def test_the_page_goes_into_a_file_and_nothing_to_stdout(run: Audit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = run("-o", str(file), record=simulated())
    assert done.stdout == ""
    assert "open it in a browser" in done.stderr
    assert file.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("place", ["nowhere/report.html", "report.pdf"])
def test_a_page_that_cannot_be_written_is_said_before_anything_is_read(run: Audit, place: str) -> None:
    done = run("-o", place, record=simulated(), refused="count_over_time")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "-o" in done.stderr


def test_the_summary_is_the_default(run: Audit) -> None:
    done = run(record=simulated())
    assert "Where does the time go?" in done.stdout
    assert done.stderr == ""


def test_a_job_that_is_gone_is_audited_from_prometheus_alone(run: Audit) -> None:
    done = run("-o", "json", record=simulated(job=None, revisions=()))
    assert done.exit_code == 0
    (found,) = Document.model_validate(json.loads(done.stdout)).items
    assert found.gpu_hours is None
    assert found.biggest_wait
    assert found.biggest_wait.for_ == "reward-server"
    assert any("there is no such job, or none any more" in words for words in found.missing)
    assert any("what reallocation is worth is unknown" in words for words in found.missing)
    assert "SY1011" in done.stderr


def test_what_may_not_be_read_is_said_and_the_rest_stands(run: Audit) -> None:
    state = cluster(simulated())
    path = JOB.path("default", "calculator")
    state.denied[path] = 'Error from server (Forbidden): agenticrljobs "calculator" is forbidden: User "her" cannot get'
    done = run(record=simulated(job=None), state=state)
    assert done.exit_code == 0
    assert "forbidden" in done.stderr


def test_a_job_whose_stored_spec_breaks_a_rule_is_audited_without_it(run: Audit) -> None:
    state = cluster(simulated())
    state.objects[JOB.path("default", "calculator")]["spec"]["budget"]["gpus"] = -1
    state.objects[REVISION.path("default", "calculator-2")]["spec"]["number"] = 0
    done = run("-o", "json", record=simulated(job=None), state=state)
    assert done.exit_code == 0
    (found,) = Document.model_validate(json.loads(done.stdout)).items
    assert any(words.startswith("the job's spec breaks a rule: spec.budget.gpus: -1") for words in found.missing)
    assert any(words.startswith("calculator-2 is passed over: spec.number: 0") for words in found.missing)
    assert [one.name for one in found.revisions] == ["calculator-1", "calculator-3"]


def test_a_refused_figure_is_named_and_the_rest_stands(run: Audit) -> None:
    done = run(record=simulated(), refused="steelyard_tool_seconds_bucket")
    assert done.exit_code == 0
    assert "Prometheus refused tools_bucket (422, execution: too many samples)" in done.stderr


def test_a_prometheus_that_answers_nothing_is_one_message(run: Audit) -> None:
    done = run(record=simulated(), refused="count_over_time")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("SY1010 default/calculator: Prometheus refused the job's pods")


def test_a_job_that_nobody_knows_is_not_found(run: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakePrometheus, "_range", lambda *_: [])
    done = run(record=simulated(job=None, revisions=()))
    assert done.exit_code == 6
    assert "Prometheus knows no series of default/calculator in this time" in done.stderr


USAGE = {
    "neither job nor recording": ([], "name a JOB, or a file with --recording"),
    "both": (["calculator", "--recording", "x.json"], "name a JOB, or a file with --recording"),
    "an output that is none": (["calculator", "-o", "pdf"], "ends in .html"),
    "a file that is not there": (["--recording", "nowhere.json"], "No such file"),
    "a duration that is none": (["calculator", "--for", "soon"], "no duration"),
    "a time that is none": (["calculator", "--until", "noon"], "neither a duration"),
    "a price below nothing": (["calculator", "--gpu-price", "-1"], "--gpu-price"),
}


@pytest.mark.parametrize("case", USAGE)
def test_bad_input_is_named(case: str) -> None:
    arguments, words = USAGE[case]
    done = CliRunner().invoke(app, ["audit", *arguments])
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_recording_that_is_something_else_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}")
    done = CliRunner().invoke(app, ["audit", "--recording", str(file)])
    assert done.exit_code == 2
    assert "not the JSON of `steelyard audit -o json`" in done.stderr
