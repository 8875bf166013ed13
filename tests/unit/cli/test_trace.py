"""`steelyard trace`: a trajectory's life from its spans, the waits between them, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.cli.tracing.perfetto import trace_events
from steelyard.cli.tracing.story import Share, Wait, slowest, stories
from steelyard.cli.tracing.tree import rows, tree
from steelyard.cluster.errors import NotFound
from steelyard_workers import spans as reader
from steelyard_workers.spans import Span, Unreadable, Window
from tests.unit.cli.documents_of_runs import TrajectoryList
from tests.unit.cli.fake_kubectl import FakeKubectl, State, put
from tests.unit.cli.lives import STAGES, ZERO, life, span


def test_a_life_is_told_in_order_with_the_waits_between() -> None:
    (story,) = stories(life())
    assert [step.share if isinstance(step, Wait) else step.name for step in story.steps] == [
        *(Share.TASKS, "episode", Share.REWARD_QUEUE, "score", Share.TRAINER_QUEUE, "train")
    ]
    assert (story.start - ZERO, story.seconds, story.outcome) == (0.0, 15.0, "trained")
    assert [child.name for child in story.children(story.outermost[0])] == ["generate", "tool"]


def test_every_second_is_counted_once_and_for_who_had_it() -> None:
    (story,) = stories(life())
    assert story.shares == {
        Share.TASKS: 1.0,
        Share.SAMPLER: 2.0,
        Share.TOOLS: 1.0,
        Share.BLOCKED: 0.5,
        Share.ENVIRONMENT: 0.5,
        Share.REWARD_QUEUE: 2.0,
        Share.REWARD: 1.0,
        Share.TRAINER_QUEUE: 5.0,
        Share.TRAINER: 2.0,
    }
    assert sum(story.shares.values()) == story.seconds


WAITS: dict[str, tuple[list[Span], dict[Share, float]]] = {
    "for the first sampler": (
        [
            span("episode", 0, 10, waited=9, worked=1, outcome="ok"),
            span("generate", 7, 9.5, parent="12/3/0-episode-0"),
        ],
        {Share.SAMPLER: 8.5, Share.BLOCKED: 0.5, Share.ENVIRONMENT: 1},
    ),
    "for samplers that never came": (
        [span("episode", 0, 10, waited=10, worked=0, outcome="timeout")],
        {Share.SAMPLER: 10},
    ),
    "for room behind the reward": ([span("score", 0, 4, waited=3, worked=1)], {Share.BLOCKED: 3, Share.REWARD: 1}),
}


@pytest.mark.parametrize(("spans", "want"), WAITS.values(), ids=WAITS)
def test_a_wait_without_a_span_of_its_own_is_known_by_where_it_lies(
    spans: list[Span], want: dict[Share, float]
) -> None:
    (story,) = stories(spans)
    assert story.shares == want


def test_clocks_that_differ_make_no_negative_waits() -> None:
    episode, score = span("episode", 0, 5, queued_seconds=0.0), span("score", 4.8, 6)
    (story,) = stories([episode, score])
    assert Share.REWARD_QUEUE not in story.shares
    assert [step.name for step in story.steps if isinstance(step, Span)] == ["episode", "score"]


OUTCOMES: dict[str, tuple[list[Span], str]] = {
    "trained": (life(), "trained"),
    "waits for the trainer": (life()[1:], "waits for the trainer"),
    "waits for its reward": ([life()[-1]], "waits for its reward"),
    "timed out": ([span("episode", 0, 1, outcome="timeout")], "timeout"),
    "the worker was killed": ([span("episode", 0, 1, failed=True)], "failed"),
    "its episode is still going on": ([span("score", 0, 1)], "unknown"),
}


@pytest.mark.parametrize(("spans", "outcome"), OUTCOMES.values(), ids=OUTCOMES)
def test_how_far_it_came(spans: list[Span], outcome: str) -> None:
    (story,) = stories(spans)
    assert story.outcome == outcome


def test_the_slowest_come_first() -> None:
    told = stories([*life("1/0/0"), *life("2/0/0")[1:], span("episode", 0, 1, "3/0/0")])
    assert [story.id for story in slowest(told, 2)] == ["1/0/0", "2/0/0"]


def test_the_tree_says_where_when_by_whom_and_with_what() -> None:
    (story,) = stories(life())
    lines = tree(story, {"10.0.0.7": "calculator-sampler-whole-abc"})
    assert lines[0] == (
        "trajectory 12/3/0: trained, 15.00 s since its dispatch, reward 0.75, in the batch of step 6, 1 versions behind"
    )
    text = "\n".join(lines)
    for says in (
        "    1.00 s  ├ episode ",
        "│ ├ generate 0 ",
        "calculator-sampler-whole-abc 10.0.0.7:8000, 64 tokens, 32/s",
        "policy 1.4 to 1.5, outcome ok, worked 500 ms, waited 3.50 s",
        "└ tool calculator ",
        "├ waiting for its group and the trainer ",
        "worked 3.50 s (23 %), waited 11.50 s:",
    ):
        assert says in text
    bars = {name: line for line in lines for name in ("├ score", "├ episode") if name in line}
    assert bars["├ score"].count("█") == 2, "one of fifteen seconds in a bar of 32"
    assert bars["├ episode"].count("▒") == 9, "it mostly waits"


def test_a_row_names_what_took_most() -> None:
    header, row = rows(stories(life()))
    assert header.split()[0] == "TRAJECTORY"
    assert " ".join(row.split()) == (
        "12/3/0 15.00 trained 0.75 1 64 77 % waiting for its group and the trainer (5.00 s)"
    )


def test_perfetto_gets_lanes_in_which_work_nests() -> None:
    told = stories([*life("1/0/0"), *life("1/1/0", at=0.5), *life("1/2/0", at=20)])
    document = json.loads(json.dumps(trace_events(told, "calculator")))
    events = document["traceEvents"]
    work = [event for event in events if event["ph"] == "X"]
    assert len(work) == 15
    assert min(event["ts"] for event in work) == 1_000_000
    for thread in {(event["pid"], event["tid"]) for event in work}:
        mine = sorted((e for e in work if (e["pid"], e["tid"]) == thread), key=lambda e: (e["ts"], -e["dur"]))
        outer = [event for event in mine if event["name"] in STAGES]
        assert all(one["ts"] + one["dur"] <= two["ts"] for one, two in pairwise(outer))
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {
        *("environment", "reward-server", "trainer"),
        *("environment-0", "environment-0 #2", "reward-server-0", "reward-server-0 #2", "trainer-0", "trainer-0 #2"),
    }


def test_perfetto_gets_arrows_and_counts_that_end_at_none() -> None:
    events = trace_events(stories(life()), "calculator")["traceEvents"]
    assert [event["ph"] for event in events if event.get("cat") == "trajectory"] == ["s", "f"] * 2
    counts = [event["args"]["trajectories"] for event in events if event["ph"] == "C"]
    assert counts == [1, 0, 1, 0, 1, 0]


class Bus:
    """What the reader is asked for, and what it answers."""

    def __init__(self) -> None:
        self.state = State()
        self.window: Window | Unreadable = Window(tuple(life()))
        self.asked: list[Any] = []

    async def read(self, *asked: Any) -> Window:
        self.asked = list(asked)
        if isinstance(self.window, Unreadable):
            raise self.window
        return self.window


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    bus = Bus()
    labels = {"steelyard.dev/job": "calculator"}
    metadata = {"name": "calculator-sampler-x", "namespace": "default", "labels": labels}
    pod = {"kind": "Pod", "metadata": metadata, "status": {"podIP": "10.0.0.7"}}
    kubectl = FakeKubectl(put(bus.state, pod))

    @contextmanager
    def forwarded(self: FakeKubectl, namespace: str, pod: str, port: int) -> Iterator[int]:
        assert (namespace, pod, port) == ("default", "calculator-bus-0", 4222)
        yield 40404

    monkeypatch.setattr(FakeKubectl, "forwarded", forwarded)
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: kubectl)
    monkeypatch.setattr(reader, "read", bus.read)
    return bus


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["trace", "calculator", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_trajectory_is_shown_as_a_tree_and_asked_for_alone(bus: Bus) -> None:
    code, out, _ = run("12/3/0")
    assert code == 0
    assert bus.asked[:4] == ["nats://127.0.0.1:40404", "calculator", "12/3/0", None]
    assert "calculator-sampler-x 10.0.0.7:8000" in out


def test_without_one_the_slowest_of_the_last_minutes_are_listed(bus: Bus) -> None:
    bus.window = Window((*life("1/0/0"), *life("2/0/0")[1:]), left_out=7)
    code, out, err = run("--slowest", "1", "--since", "5m")
    assert code == 0
    assert bus.asked[2] is None
    assert bus.asked[3] is not None
    assert [line.split()[0] for line in out.splitlines()] == ["TRAJECTORY", "1/0/0"]
    assert "2 trajectories; one of them: steelyard trace calculator 1/0/0" in err
    assert "7 newer ones were not" in err


def test_programs_get_seconds_and_spans(bus: Bus) -> None:
    (item,) = TrajectoryList.model_validate(json.loads(run("12/3/0", "-o", "json")[1])).items
    assert (item.trajectory, item.seconds, item.reward, item.step, item.staleness) == ("12/3/0", 15.0, 0.75, 6, 1)
    assert item.shares["rewardQueue"] == 2.0
    assert len(item.spans) == 5


def test_perfettos_file_holds_all_of_them(bus: Bus, tmp_path: Path) -> None:
    bus.window = Window((*life("1/0/0"), *life("2/0/0")))
    file = tmp_path / "trace.json"
    assert run("--slowest", "1", "--perfetto", str(file))[0] == 0
    written = json.loads(file.read_text())["traceEvents"]
    assert {event["args"]["trajectory"] for event in written if event["ph"] == "X"} == {"1/0/0", "2/0/0"}


def test_without_spans_the_reason_is_told(bus: Bus) -> None:
    bus.window = Window(())
    code, out, err = run("99/0/0")
    assert (code, out) == (6, "")
    assert "SY1102 default/calculator: no spans of trajectory 99/0/0" in err
    bus.window = Unreadable("the bus cannot be reached")
    assert run()[0] == 6


def test_a_job_that_is_not_there_is_told_from_one_whose_bus_does_not_run(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NotFound('pods "calculator-bus-0" not found')

    monkeypatch.setattr(FakeKubectl, "forwarded", refuse)
    code, out, err = run()
    assert (code, out) == (6, "")
    assert err.startswith("SY1006 default/calculator: there is no such job")
    put(bus.state, {"kind": "AgenticRLJob", "metadata": {"name": "calculator", "namespace": "default"}})
    code, out, err = run()
    assert (code, out) == (6, "")
    assert err.startswith("SY1102 default/calculator: its bus does not run")


@pytest.mark.parametrize("text", ["12/", "a", "1/2/3/4", "-1", "12.3.0"])
def test_what_is_no_trajectory_is_a_usage_error(bus: Bus, text: str) -> None:
    code, _, err = run("--", text)
    assert code == 2
    assert "is no trajectory: want group, group/k or group/k/attempt" in err
    assert not bus.asked
