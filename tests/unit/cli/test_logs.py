"""`steelyard logs`: one stream in a stable order, whatever comes, goes or fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.cli.commands import logs as command
from steelyard.cli.log_lines import Followed, parsed
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import JOB, POD, Object
from tests.builders import job_manifest
from tests.unit.cli.documents_of_runs import LogLineList
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put


def worker(name: str, stage: str = "sampler", *containers: str, state: str = "running") -> Object:
    names = containers or ("worker",)
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"steelyard.dev/job": "calculator", "steelyard.dev/stage": stage},
        },
        "spec": {"containers": [{"name": name} for name in names]},
        "status": {"containerStatuses": [{"name": one, "state": {state: {}}, "containerID": "1"} for one in names]},
    }


def at(second: int, text: str, fraction: str = "") -> str:
    """A line as the kubelet writes it: without the zeros at the end of a fraction."""
    return f"2026-11-30T13:00:{second:02}{fraction}Z {text}"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    state = put(State(), job_manifest(), worker("s-1"), worker("s-2"), worker("r-1", "reward-server"))
    state.logs = {
        "s-1/worker": [at(1, "one"), at(4, "four")],
        "s-2/worker": [at(2, "two"), at(4, "four too")],
        "r-1/worker": [at(3, "three")],
    }
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(state))
    monkeypatch.setattr("steelyard.cli.log_lines.HELD_SECONDS", 0.05)
    return state


def run(*arguments: str) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(app, ["logs", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout.splitlines(), result.stderr


def asked(state: State) -> list[list[str]]:
    return [call for call in state.calls if call[0] == "logs"]


def test_lines_come_by_time_and_say_where_they_are_from(state: State) -> None:
    assert run("calculator")[:2] == (
        0,
        ["sampler/s-1 one", "sampler/s-2 two", "reward-server/r-1 three", "sampler/s-1 four", "sampler/s-2 four too"],
    )


def test_programs_get_every_line_with_where_and_when_it_was_written(state: State) -> None:
    put(state, worker("calculator-bus-0", "bus", "nats", "exporter"))
    state.logs["calculator-bus-0/nats"] = ["it has no time"]
    code, out, _ = run("calculator", "-o", "json")
    items = LogLineList.model_validate(json.loads("\n".join(out))).items
    assert code == 0
    assert [(one.stage, one.pod, one.container, one.text) for one in items] == [
        ("bus", "calculator-bus-0", "nats", "it has no time"),
        ("sampler", "s-1", "worker", "one"),
        ("sampler", "s-2", "worker", "two"),
        ("rewardServer", "r-1", "worker", "three"),
        ("sampler", "s-1", "worker", "four"),
        ("sampler", "s-2", "worker", "four too"),
    ]
    assert [one.time and one.time.second for one in items] == [None, 1, 2, 3, 4, 4]
    assert run("calculator", "-f", "-o", "json")[:2] == (2, [])


def test_times_sort_by_what_they_mean_not_as_they_are_written() -> None:
    lines = [at(1, "half", ".5"), at(1, "half again", ".5"), "no time", at(1, "later", ".51"), at(1, "whole")]
    assert [line.text for line in sorted(parsed("s", lines))] == ["whole", "half", "half again", "no time", "later"]


def test_a_line_without_a_time_stays_with_the_one_before_and_empty_lines_stay() -> None:
    lines = list(parsed("s", [at(1, "Traceback"), "  File x", "2026-11-30T13:00:02Z"]))
    assert [line.text for line in sorted(lines)] == ["Traceback", "  File x", ""]


def test_one_stage_is_one_stage_however_it_is_called(state: State) -> None:
    for name in ("rewardServer", "reward-server"):
        assert run("calculator", "--stage", name)[1] == ["reward-server/r-1 three"]


def test_the_bus_has_a_container_in_its_lines(state: State) -> None:
    put(state, worker("calculator-bus-0", "bus", "nats", "exporter"))
    state.logs["calculator-bus-0/nats"] = [at(5, "ready")]
    assert run("calculator", "--stage", "bus")[1] == ["bus/calculator-bus-0/nats ready"]


OPTIONS = {
    "by default the newest lines": ((), "--tail=1000", None),
    "of a time all": (("--since", "10m"), "--tail=-1", "--since=600s"),
    "as many as wanted of a time": (("--since", "10m", "--tail", "5"), "--tail=5", "--since=600s"),
}


@pytest.mark.parametrize(("given", "tail", "since"), OPTIONS.values(), ids=OPTIONS)
def test_how_far_back(state: State, given: tuple[str, ...], tail: str, since: str | None) -> None:
    run("calculator", "--stage", "reward-server", *given)
    (call,) = asked(state)
    assert tail in call
    assert next((option for option in call if option.startswith("--since")), None) == since


def test_times_are_shown_when_asked_for(state: State) -> None:
    assert run("calculator", "--stage", "reward-server", "--timestamps")[1] == [
        "reward-server/r-1 2026-11-30T13:00:03.000000000Z three"
    ]


def test_a_log_that_cannot_be_read_is_told_and_the_others_are_shown(state: State) -> None:
    state.denied = {f"{POD.path('default', 's-1')}/log": "Error from server (Forbidden): no logs of s-1 for you"}
    code, out, err = run("calculator")
    assert code == 4
    assert len(out) == 3
    assert "SY1011 sampler/s-1: no logs of s-1 for you" in err


def test_a_pod_that_goes_before_it_is_read_is_told_and_is_no_failure(state: State) -> None:
    state.denied = {f"{POD.path('default', 's-1')}/log": 'Error from server (NotFound): pods "s-1" not found'}
    code, out, err = run("calculator")
    assert (code, len(out)) == (0, 3)
    assert err == "sampler/s-1 went meanwhile\n"


def test_containers_that_have_not_started_are_not_asked_for(state: State) -> None:
    put(state, worker("s-3", state="waiting"))
    run("calculator")
    assert not [call for call in asked(state) if "s-3" in call]


def test_a_job_without_pods_says_so_and_one_that_does_not_exist_fails(state: State) -> None:
    put(state, job_manifest(name="idle"))
    assert run("idle") == (0, [], "no container of the job has started\n")
    assert run("calculatr")[0] == 6
    assert run("calculator", "--stage", "judge")[0] == 2


class Log:
    """A log that goes on until it is ended."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.end = list(lines), threading.Event()

    def __iter__(self) -> Iterator[str]:
        yield from self.lines
        self.end.wait(10)


def test_followed_lines_wait_a_moment_for_earlier_ones_of_others() -> None:
    followed = Followed()
    slow, quick = Log(at(2, "second")), Log(at(1, "first"))
    followed.read("a", "sampler/a", slow)
    followed.read("b", "sampler/b", quick)
    assert [line.text for line in followed.due()] == ["first", "second"]
    assert followed.count == 2
    slow.end.set()
    quick.end.set()


def test_a_followed_log_that_breaks_is_told_once() -> None:
    def broken() -> Iterator[str]:
        yield at(1, "last words")
        raise ClusterError("connection reset")

    followed = Followed()
    followed.read("a", "sampler/a", broken())
    assert [line.text for line in followed.due()] == ["last words"]
    assert [(source, str(error)) for source, error in followed.broken()] == [("sampler/a", "connection reset")]
    assert not list(followed.broken())


def test_following_takes_up_pods_that_come_later_and_ends_with_the_job(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.0)
    looks: list[int] = []
    real = FakeKubectl.objects

    def objects(self: FakeKubectl, *arguments: Any, **options: Any) -> list[Object]:
        looks.append(1)
        if len(looks) == 2:
            put(state, worker("s-9"))
            state.logs["s-9/worker"] = [at(9, "nine")]
        if len(looks) == 3:
            job = state.objects[JOB.path("default", "calculator")]
            job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        return real(self, *arguments, **options)

    monkeypatch.setattr(FakeKubectl, "objects", objects)
    code, out, _ = run("calculator", "-f", "--tail", "1")
    assert code == 0
    assert out[0] == "sampler/s-1 one"
    assert out[-1] == "sampler/s-9 nine"
    assert len(out) == 6, "no line twice"
    tails = {next(option for option in call if option.startswith("--tail")) for call in asked(state) if "s-9" in call}
    assert tails == {"--tail=-1"}, "of a pod that starts now, all"


def test_a_restarted_container_is_followed_again(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.0)
    looks: list[int] = []
    real = FakeKubectl.objects

    def objects(self: FakeKubectl, *arguments: Any, **options: Any) -> list[Object]:
        looks.append(1)
        if len(looks) == 2:
            pod = state.objects[POD.path("default", "r-1")]
            pod["status"]["containerStatuses"][0]["containerID"] = "2"
            state.logs["r-1/worker"] = [at(7, "again")]
        if len(looks) == 3:
            del state.objects[JOB.path("default", "calculator")]
        return real(self, *arguments, **options)

    monkeypatch.setattr(FakeKubectl, "objects", objects)
    assert run("calculator", "-f", "--stage", "reward-server")[1] == [
        "reward-server/r-1 three",
        "reward-server/r-1 again",
    ]


def test_no_more_logs_are_followed_than_there_is_room_for(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_FOLLOWED", 0)
    monkeypatch.setattr(Followed, "due", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    code, out, err = run("calculator", "-f")
    assert (code, out) == (0, [])
    assert "name a --stage" in err
