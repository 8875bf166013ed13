"""`steelyard bundle`: what is in the file, what never is, and what it says about itself."""

from __future__ import annotations

import json
import stat
import tarfile
from math import nan
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.balance.types import Rates, Series
from steelyard.cli import app
from steelyard.cli.looking import Measured
from steelyard.cluster.kinds import EVENT, POD, Object
from tests.builders import a_revision, job_manifest
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put

SECRET = "hunter2-correct.horse"
CREATED = "2026-11-30T12:00:00Z"
LABELS = {"steelyard.dev/job": "calculator", "steelyard.dev/stage": "sampler"}


def worker(name: str = "calculator-sampler-whole-abc", **container: Any) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": LABELS, "creationTimestamp": CREATED},
        "spec": {"containers": [{"name": "worker", **container}]},
        "status": {"containerStatuses": [{"name": "worker", "restartCount": 1}]},
    }


def event(name: str, about: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "Event", "metadata": metadata, "involvedObject": {"name": about}, "message": f"about {about}"}


def labelled(kind: str, name: str, **fields: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, "namespace": "default", "labels": LABELS}, **fields}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> State:
    state = State()
    revision = {**a_revision(1).to_dict(), "kind": "AllocationRevision"}
    deployment = labelled("Deployment", "calculator-sampler-whole", spec={"template": {}})
    put(state, job_manifest(), revision, worker(), deployment)
    put(state, event("mine", "calculator-sampler-whole-abc"), event("made", "calculator-sampler-whole-zzz"))
    put(state, event("other", "somebody-else"))
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(state))
    series = Series((("stage", "sampler"), ("apiKey", SECRET)), ((10.0, 1.5), (11.0, 2.5), (12.0, nan)))
    rates = Rates(60.0, {"steelyard_stage_slots": {"calculator-sampler-whole-abc": (series,)}})
    monkeypatch.setattr("steelyard.cli.bundling.measured.measure", lambda *_: Measured(rates, 11.0, "http://p:9090"))
    monkeypatch.chdir(tmp_path)
    return state


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bundle", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def unpacked(file: str) -> dict[str, str]:
    with tarfile.open(file) as archive:
        names = archive.getnames()
        return {name.partition("/")[2]: archive.extractfile(name).read().decode() for name in names}  # type: ignore[union-attr]


def test_it_holds_the_job_and_all_that_belongs_to_it(state: State) -> None:
    state.logs = {
        "calculator-sampler-whole-abc/worker": ["now"],
        "calculator-sampler-whole-abc/worker/previous": ["then"],
    }
    code, out, err = run("calculator", "-o", "b.tar.gz")
    files = unpacked("b.tar.gz")
    assert (code, out) == (0, "b.tar.gz\n")
    assert {"jobs.yaml", "revisions.yaml", "pods.yaml", "events.yaml", "versions.yaml", "manifest.yaml"} <= files.keys()
    assert files["logs/sampler/calculator-sampler-whole-abc.worker.log"] == "now\n"
    assert files["logs/sampler/calculator-sampler-whole-abc.worker.previous.log"] == "then\n"
    assert [one["metadata"]["name"] for one in yaml.safe_load(files["events.yaml"])] == ["mine", "made"]
    assert yaml.safe_load(files["versions.yaml"])["serverVersion"] == {"gitVersion": "v1.37.0"}
    assert "1 values withheld" in err


def test_it_holds_the_samples_that_decisions_rest_on_or_says_why_not(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("calculator", "-o", "b.tar.gz")
    measured = json.loads(unpacked("b.tar.gz")["metrics/calculator.json"])
    (series,) = measured["samples"]["steelyard_stage_slots"]["calculator-sampler-whole-abc"]
    assert (measured["from"], measured["windowSeconds"]) == ("http://p:9090", 60.0)
    assert series["samples"] == [[10.0, 1.5], [11.0, 2.5], [12.0, None]]
    assert SECRET not in str(series)

    monkeypatch.setattr("steelyard.cli.bundling.measured.measure", lambda *_: "Prometheus: no such host")
    code, _, err = run("calculator", "-o", "b.tar.gz")
    assert code == 4
    assert "SY1011 metrics/calculator.json: Prometheus: no such host" in err


def test_only_its_owner_may_read_it_and_nothing_else_is_left(state: State) -> None:
    _, out, _ = run("calculator")
    (file,) = Path().iterdir()
    assert file.name == out.strip()
    assert file.name.startswith("steelyard-calculator-20")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_secret_of_objects_configuration_or_logs_gets_in(state: State) -> None:
    put(state, worker(env=[{"name": "JUDGE", "value": SECRET}], args=["--hf-token", SECRET]))
    put(state, labelled("ConfigMap", "calculator-config", data={"job.json": json.dumps({"apiKey": SECRET})}))
    put(state, {**event("login", "calculator"), "message": f"login with password={SECRET} failed"})
    state.logs = {"calculator-sampler-whole-abc/worker": [f"key is {SECRET}", f"GET https://u:{SECRET}@host/"]}
    run("calculator", "-o", "b.tar.gz")
    files = unpacked("b.tar.gz")
    assert not [name for name, text in files.items() if SECRET in text]
    withheld = yaml.safe_load(files["manifest.yaml"])["withheld"]
    assert withheld["pods.yaml"] == {"JUDGE": 1, "hf-token": 1}
    assert withheld["logs/sampler/calculator-sampler-whole-abc.worker.log"] == {"a value withheld elsewhere": 2}
    assert {"children/configmaps.yaml", "events.yaml"} <= withheld.keys()


def test_secrets_are_never_asked_for(state: State) -> None:
    run("calculator")
    assert state.calls
    assert not [call for call in state.calls if "secret" in " ".join(call).lower()]


def test_what_cannot_be_read_is_named_and_the_rest_is_there(state: State) -> None:
    state.denied = {
        EVENT.path("default"): 'Error from server (Forbidden): events is forbidden: User "alice" cannot list',
        f"{POD.path('default', 'calculator-sampler-whole-abc')}/log": "Error from server (Forbidden): no logs for you",
    }
    code, out, err = run("calculator", "-o", "b.tar.gz")
    files = unpacked("b.tar.gz")
    missing = yaml.safe_load(files["manifest.yaml"])["missing"]
    assert (code, out) == (4, "b.tar.gz\n")
    assert missing["events.yaml"].startswith("events is forbidden")
    assert missing["logs/sampler/calculator-sampler-whole-abc.worker.log"] == "no logs for you"
    assert "jobs.yaml" in files
    assert "SY1011 events.yaml: events is forbidden" in err


def test_a_pod_that_goes_while_it_is_collected_is_told_and_is_no_failure(state: State) -> None:
    log = f"{POD.path('default', 'calculator-sampler-whole-abc')}/log"
    state.denied = {log: 'Error from server (NotFound): pods "calculator-sampler-whole-abc" not found'}
    code, _, err = run("calculator", "-o", "b.tar.gz")
    told = yaml.safe_load(unpacked("b.tar.gz")["manifest.yaml"])
    gone = ["logs/sampler/calculator-sampler-whole-abc.worker", ".log", ".previous.log"]
    assert (code, told["missing"]) == (0, {})
    assert told["goneMeanwhile"] == [gone[0] + end for end in gone[1:]]
    assert f"{gone[0]}.log: its pod went meanwhile" in err


def test_of_a_job_that_does_not_exist_there_is_no_bundle(state: State) -> None:
    code, out, err = run("calculatr")
    assert (code, out) == (6, "")
    assert err.splitlines()[-1].startswith("SY1006 default/calculatr: there is no such job")
    assert not list(Path().iterdir())


def test_without_a_name_it_holds_every_job_of_the_namespace(state: State) -> None:
    put(state, job_manifest(name="second"))
    run("-o", "b.tar.gz")
    jobs = yaml.safe_load(unpacked("b.tar.gz")["jobs.yaml"])
    assert [job["metadata"]["name"] for job in jobs] == ["calculator", "second"]


def test_a_dry_run_lists_the_files_and_writes_none(state: State) -> None:
    code, out, _ = run("calculator", "--dry-run")
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines()]
    assert {"jobs.yaml", "children/configmaps.yaml", "logs/sampler/calculator-sampler-whole-abc.worker.log"} <= set(
        listed
    )
    assert listed[-1] == "manifest.yaml"
    assert not list(Path().iterdir())
    assert not [call for call in state.calls if call[0] == "logs"]


def test_a_dry_run_that_may_not_read_pods_lists_nothing(state: State) -> None:
    state.denied = {POD.path("default"): "Error from server (Forbidden): pods is forbidden"}
    assert run("calculator", "--dry-run")[:2] == (6, "")


def test_a_place_that_cannot_be_written_to_is_named(state: State) -> None:
    code, out, err = run("calculator", "-o", "nowhere/b.tar.gz")
    assert (code, out) == (2, "")
    assert "there is no folder nowhere" in err
    assert not state.calls, "said before anything is read"
