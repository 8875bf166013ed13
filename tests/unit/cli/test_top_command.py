"""`steelyard top`: where a job's time goes now, on a screen, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from steelyard.api.names import Stage
from steelyard.cli import top_frame
from steelyard.cli.ages import now
from steelyard.cli.commands.top import both_ends
from steelyard.cli.jobs import parse
from steelyard.cli.top_frame import Frame
from steelyard.cluster.kinds import JOB, POD
from tests.unit.cli.documents import JobTop
from tests.unit.cli.fake_kubectl import State
from tests.unit.cli.world import Answering, lived, one_of, steelyard


@pytest.fixture
def state() -> State:
    """A job that has moved once."""
    return lived(50).state()


SHARES = [
    ({"stage": "sampler", "state": "busy"}, 1.5),
    ({"stage": "sampler", "state": "starved"}, 0.5),
    ({"stage": "bus", "state": "busy"}, 1.0),
]


def test_top_shows_where_time_goes_and_marks_the_bottleneck(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    answering = Answering({"shares": SHARES, "staleness": [({}, 1.25)], "tokens": [({}, 83.4)]})
    monkeypatch.setattr("steelyard.cli.commands.top.Asking", answering)
    code, out, err = steelyard(state, "top", "calculator", "--once", monkeypatch=monkeypatch)
    assert (code, err) == (0, "")
    rows = {line.removeprefix("> ").split()[0]: line for line in out.splitlines() if line}
    assert "BBBBBBBBBBBBBBBBBBBBBBB·······" in rows["sampler"]
    assert [stage for stage, line in rows.items() if line.startswith("> ")] == ["rewardServer"]
    assert "no data" in rows["trainer"]
    assert "B works  · has no input\n" in out
    assert "staleness 1.2 versions" in out
    assert "83.4 tokens/s" in out
    assert all('namespace="default"' in query for query in answering.asked)
    assert "\x1b" not in out


def test_top_as_json_keeps_its_promise(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.cli.commands.top.Asking", Answering({"shares": SHARES}))
    pod = one_of(state, POD, "sampler")
    pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": "disk is full"}
    _, out, _ = steelyard(state, "top", "calculator", "-o", "json", monkeypatch=monkeypatch)
    (found,) = JobTop.model_validate(json.loads(out)).items
    assert found.time_shares["sampler"] == {"busy": 0.75, "starved": 0.25}
    assert found.waiting_pods == [f"{pod['metadata']['name']}: Evicted: disk is full"]


def test_top_without_prometheus_shows_the_status_and_says_why(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = steelyard(state, "top", "calculator", "--once", monkeypatch=monkeypatch)
    assert code == 0
    assert "80 %" in out
    assert "SY1010 no metrics: no Deployment with the label" in out
    assert "name the place with --prometheus (see docs/messages.md#sy1010)" in out


@pytest.mark.parametrize(
    "shares", [{"busy": 1.0}, {"busy": 1 / 3, "tool": 1 / 3, "starved": 1 / 3}, {"sync": 0.001, "tool": 0.999}]
)
def test_a_bar_is_always_full(shares: dict[str, float]) -> None:
    assert all(len(top_frame.bar(shares, length)) == length for length in (10, 30))


@pytest.mark.parametrize("width", [80, 120])
def test_a_frame_is_no_wider_than_the_terminal_and_loses_nothing(state: State, width: int) -> None:
    job = parse(state.objects[JOB.path("default", "calculator")])
    shares = {stage: dict.fromkeys(top_frame.STATES, 1 / len(top_frame.STATES)) for stage in Stage}
    pod = "calculator-sampler-whole-31: CrashLoopBackOff: back-off 5m0s restarting failed container=worker of the pod"
    frame = Frame(job, now(), shares, 1.5, 83.4, [pod], "services is forbidden")
    lines, all_of_it = top_frame.lines(frame, width), top_frame.lines(frame)
    assert max(map(len, lines)) <= width < max(map(len, all_of_it))
    assert words(lines) == words(all_of_it)


def words(lines: list[str]) -> list[str]:
    """Of what is beside the table, whose bars fit the terminal."""
    table = next(place for place, line in enumerate(lines) if line.startswith("STAGE"))
    return " ".join([*lines[:table], *lines[table + 1 + len(Stage) :]]).split()


@pytest.mark.parametrize("height", [8, 20, 59, 60])
def test_what_is_too_long_for_a_screen_keeps_its_beginning_and_its_end(height: int) -> None:
    lines = [str(number) for number in range(60)]
    shown = both_ends(lines, height)
    assert len(shown) <= height
    assert (shown[:5], shown[-1]) == (lines[:5], "59")
    left_out = [line for line in shown if line.startswith("...")]
    assert left_out == ([] if height >= 60 else [f"... {60 - len(shown) + 1} lines are left out ..."])
