"""`steelyard status`: rows, words, documents, waits and exits."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
import yaml

from steelyard.cli.ages import NoTime, duration, instant_of, seconds_of
from steelyard.cli.jobs import moment
from steelyard.cluster.kinds import JOB, Object
from tests.unit.cli.documents import JobStatusList
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import World, lived, steelyard

PATH = JOB.path("default", "calculator")
FORBIDDEN = 'Error from server (Forbidden): agenticrljobs.steelyard.dev is forbidden: User "v" cannot list'


@pytest.fixture
def state() -> State:
    """A job that runs."""
    return lived(6).state()


def conditioned(job: Object, kind: str, status: str, reason: str = "Because", message: str = "of it") -> Object:
    """The same job with this condition."""
    changed = deepcopy(job)
    others = [one for one in changed["status"]["conditions"] if one["type"] != kind]
    found = {
        "type": kind, "status": status, "reason": reason, "message": message,
        "observedGeneration": job["metadata"]["generation"],
    }  # fmt: skip
    changed["status"]["conditions"] = [*others, found]
    return changed


def test_a_row_has_phase_replicas_gpus_rates_and_the_last_decision(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = steelyard(state, "status", monkeypatch=monkeypatch)
    header, row = out.splitlines()
    assert (code, err) == (0, "")
    assert dict(zip(header.split(), re.split(r" {3,}", row), strict=True)) == {
        "NAME": "calculator", "PHASE": "Running", "STEP": "-/2000", "SAMPLER": "2/2", "ENV": "1/1", "REWARD": "1/1",
        "TRAINER": "1/1", "GPUS": "4/4", "TRAJ/S": "-", "TOK/S": "80", "BOTTLENECK": "environment",
        "DECISION": "Hold (OpenMove)", "SINCE": row.split()[-2], "AGE": row.split()[-1],
    }  # fmt: skip


def test_a_named_job_says_why_it_was_left_as_it_is(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = steelyard(state, "status", "calculator", "--no-headers", monkeypatch=monkeypatch)
    assert code == 0
    row, bottleneck, decision = out.splitlines()
    assert row.startswith("calculator ")
    assert bottleneck.startswith("Bottleneck: environment: environment works 88 %")
    assert decision.startswith("Decision: Hold (OpenMove): no change because calculator-1 is open")


@pytest.mark.parametrize("condition", ["Degraded", "Failed", "Stalled"])
def test_a_named_job_that_is_unwell_ends_with_3_and_says_so_first(
    state: State, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.objects[PATH] = conditioned(state.objects[PATH], condition, "True", "CrashLoopBackOff", "pod x: it crashed")
    code, out, _ = steelyard(state, "status", "calculator", monkeypatch=monkeypatch)
    assert code == 3
    assert out.splitlines()[2] == f"{condition}: CrashLoopBackOff: pod x: it crashed"
    assert steelyard(state, "status", monkeypatch=monkeypatch)[0] == 0, "a list is an answer whatever is in it"


def test_conditions_of_an_older_spec_do_not_count(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.objects[PATH] = conditioned(state.objects[PATH], "Degraded", "True")
    state.objects[PATH]["metadata"]["generation"] += 1
    assert steelyard(state, "status", "calculator", monkeypatch=monkeypatch)[0] == 0


def test_json_and_yaml_are_one_document_that_keeps_its_promise(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, err = steelyard(state, "status", "-o", "json", monkeypatch=monkeypatch)
    document = JobStatusList.model_validate(json.loads(out))
    (job,) = document.items
    assert err == ""
    assert (job.phase, job.tokens_per_second, job.gpus.used, job.stages["sampler"].ready) == ("Running", 80.0, 4.0, 2)
    assert job.conditions["Ready"].status
    _, as_yaml, _ = steelyard(state, "status", "-o", "yaml", monkeypatch=monkeypatch)
    assert yaml.safe_load(as_yaml) == json.loads(out)


def test_a_job_that_the_operator_has_not_seen_yet_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    job = deepcopy(World().cluster.get("AgenticRLJob", "calculator"))
    assert "status" not in job
    _, out, _ = steelyard(put(State(), job), "status", "-o", "json", monkeypatch=monkeypatch)
    (found,) = JobStatusList.model_validate(json.loads(out)).items
    assert (found.phase, found.training.steps, found.gpus.budget) == ("Pending", 2000, 4.0)


def test_all_namespaces_have_a_column_of_their_own(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    other = deepcopy(state.objects[PATH])
    other["metadata"] |= {"namespace": "team", "uid": "u-2"}
    put(state, other)
    _, out, _ = steelyard(state, "status", "-A", "-o", "wide", monkeypatch=monkeypatch)
    assert [line.split()[0] for line in out.splitlines()] == ["NAMESPACE", "default", "team"]
    assert "MEAN-REWARD" in out.splitlines()[0]
    _, out, _ = steelyard(state, "status", "-n", "team", "-o", "name", monkeypatch=monkeypatch)
    assert out == "agenticrljob.steelyard.dev/calculator\n"


def test_no_jobs_are_said_in_words_and_as_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steelyard(State(), "status", monkeypatch=monkeypatch) == (0, "No jobs in namespace default.\n", "")
    assert json.loads(steelyard(State(), "status", "-o", "json", monkeypatch=monkeypatch)[1])["items"] == []


@pytest.mark.parametrize("readable", [True, False], ids=["pools may be read", "pools may not be read"])
def test_a_job_that_waits_for_its_pool_says_its_place(
    state: State, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = conditioned(state.objects[PATH], "QuotaReserved", "False", "WaitingForGpus", "RLPool shared, queue low: full")
    job["spec"]["pool"], job["status"]["phase"] = {"name": "shared", "queue": "low"}, "Waiting"
    since = "2026-01-01T00:00:00Z"
    grants = [
        {"namespace": "a", "job": "runs", "queue": "low"},
        {"namespace": "a", "job": "other", "queue": "high", "waitingSince": since},
        {"namespace": "a", "job": "first", "queue": "low", "waitingSince": since},
        {"namespace": "default", "job": "calculator", "queue": "low", "waitingSince": since},
    ]
    put(state, job, {"kind": "RLPool", "metadata": {"name": "shared"}, "status": {"grants": grants}})
    if not readable:
        state.denied["/apis/steelyard.dev/v1alpha1/rlpools"] = FORBIDDEN
    code, out, _ = steelyard(state, "status", "calculator", monkeypatch=monkeypatch)
    assert code == 0
    assert ("Waiting (2 of 2)" in out) is readable
    assert "Waiting: RLPool shared, queue low: full" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["status", "nobody"], 6, "SY1006 default/nobody: there is no such job"),
        (["status", "calculator", "--until", "Redy"], 2, "Redy: must be one of Ready"),
        (["status", "--until", "Ready"], 2, "needs a JOB"),
        (["status", "calculator", "--until", "Ready", "--timeout", "soon"], 2, "'soon' is no duration"),
        (["status", "-w", "-o", "json"], 2, "-o json shows one moment"),
    ],
)
def test_what_is_wrong_goes_to_stderr_with_its_exit_code(
    state: State, arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, out, err = steelyard(state, *arguments, monkeypatch=monkeypatch)
    assert (found, out) == (code, "")
    assert words in err


def test_who_may_not_list_jobs_is_told_so(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    state.denied["/apis/steelyard.dev"] = FORBIDDEN
    code, out, err = steelyard(state, "status", monkeypatch=monkeypatch)
    assert (code, out) == (6, "")
    assert err.startswith("SY1004 agenticrljobs.steelyard.dev is forbidden")


def test_a_watch_writes_a_line_for_each_change_and_ends_with_the_job(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = state.objects[PATH]
    same, done = deepcopy(job), conditioned(job, "Complete", "True", "TrainerComplete", "2000 steps")
    done["status"] |= {"phase": "Complete"}
    state.events[JOB.path("default")] = [[("MODIFIED", same)], [("MODIFIED", done)]]
    code, out, _ = steelyard(state, "status", "calculator", "-w", monkeypatch=monkeypatch)
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("calculator ")]
    assert [row.split()[1] for row in rows] == ["Running", "Complete"], "an age that went on is no change"
    assert "\x1b" not in out


def test_a_watch_and_a_single_look_say_the_same(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    once = steelyard(state, "status", "calculator", monkeypatch=monkeypatch)[1]
    gone = state.objects[PATH]
    state.events[JOB.path("default")] = [[("DELETED", gone)]]
    code, watched, err = steelyard(state, "status", "calculator", "-w", monkeypatch=monkeypatch)
    assert watched == once
    assert code == 6
    assert "SY1006 default/calculator: there is no such job, or none any more" in err


@pytest.mark.parametrize(
    ("until", "change", "code", "words"),
    [
        ("Ready", None, 0, ""),
        ("Balanced=False", None, 0, ""),
        ("Degraded", ("Degraded", "True"), 0, ""),
        (
            "Balanced",
            ("Failed", "True"),
            3,
            "SY1202 default/calculator: the job has ended",
        ),
        (
            "Balanced",
            None,
            5,
            "SY1201 default/calculator: Balanced=True did not come in 1 s; OpenMove: no",
        ),
    ],
    ids=["it holds already", "it does not hold already", "it comes", "the job fails before", "it does not come"],
)
def test_a_wait_ends_when_the_condition_is_met_can_no_longer_be_or_time_is_over(
    state: State, until: str, change: Any, code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change:
        state.events[JOB.path("default")] = [[("MODIFIED", conditioned(state.objects[PATH], *change))]]
    arguments = ("status", "calculator", "--until", until, "--timeout", "1s", "-o", "json")
    found, out, err = steelyard(state, *arguments, monkeypatch=monkeypatch)
    assert found == code
    assert words in err
    assert len(JobStatusList.model_validate(json.loads(out)).items) == 1


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (330, "5m30s"), (3600, "1h"), (90061, "1d1h"), (86400 * 40, "40d")],
)
def test_durations_have_two_units_at_most(seconds: float, want: str) -> None:
    assert duration(seconds) == want


@pytest.mark.parametrize(("text", "want"), [("90s", 90), ("1h30m", 5400), ("2d", 172800)])
def test_durations_are_read(text: str, want: float) -> None:
    assert seconds_of(text) == want


@pytest.mark.parametrize("text", ["", "5", "m5", "-5m", "soon", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(NoTime):
        instant_of(text, moment("2026-01-01T00:00:00Z"))


def test_a_time_is_absolute_or_so_long_ago() -> None:
    now = moment("2026-01-01T01:00:00Z")
    assert instant_of("1h", now) == moment("2026-01-01T00:00:00Z") == instant_of("2026-01-01", now)
