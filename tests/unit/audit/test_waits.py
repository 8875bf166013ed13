"""Who waited for whom, which wait was the biggest, and what a trajectory went through."""

import pytest

from steelyard.api import Stage
from steelyard.audit.gputime import GpuTime
from steelyard.audit.record import Total
from steelyard.audit.trajectory import tools, way
from steelyard.audit.waits import biggest, edges, graph, held_back
from tests.unit.audit.builders import a_line, a_record


def seconds(**stages: dict[str, float]) -> list[Total]:
    return [
        Total({"stage": stage.replace("_", "-"), "state": state}, value)
        for stage, states in stages.items()
        for state, value in states.items()
    ]


SLOW_TOOLS = seconds(
    sampler={"busy": 40, "starved": 160},
    environment={"tool": 600, "tokens": 300, "busy": 60, "paced": 40},
    reward_server={"busy": 10, "starved": 90},
    trainer={"busy": 30, "starved": 65, "sync": 5},
)


def test_shares_are_of_slot_time_and_the_waits_name_the_environment() -> None:
    waits = graph(a_record(totals={"seconds": SLOW_TOOLS}))
    assert waits[Stage.ENVIRONMENT].shares["tool"] == pytest.approx(0.6)
    stage, evidence = held_back(waits) or (None, "")
    assert stage is Stage.ENVIRONMENT
    assert "works 96 % of its slots' time (60 % in tools, 30 % waiting for samplers)" in evidence


def test_backlogs_are_means_of_what_is_known() -> None:
    record = a_record({"buffers": [a_line([2, None, 4, None], buffer="trajectories")]}, {"seconds": SLOW_TOOLS})
    assert graph(record)[Stage.REWARD_SERVER].backlog == 3
    assert graph(record)[Stage.TRAINER].backlog is None


def test_the_biggest_wait_is_the_one_that_costs_most_gpu_hours() -> None:
    waits = graph(a_record(totals={"seconds": SLOW_TOOLS}))
    time = GpuTime({Stage.SAMPLER: {"starved": 1.6}, Stage.TRAINER: {"starved": 0.65}}, 3.0)
    found = biggest(edges(waits, time))
    assert found is not None
    assert (found.waiter, found.state, found.target) == (Stage.SAMPLER, "starved", Stage.ENVIRONMENT)


def test_without_gpu_hours_it_is_the_largest_share() -> None:
    found = biggest(edges(graph(a_record(totals={"seconds": SLOW_TOOLS})), None))
    assert found is not None
    assert (found.waiter, found.state) == (Stage.REWARD_SERVER, "starved")


def test_nothing_measured_waits_for_nobody() -> None:
    waits = graph(a_record())
    assert edges(waits, None) == ()
    assert biggest(()) is None
    assert held_back(waits) is None


def test_the_way_of_a_trajectory_divides_slot_seconds_by_episodes() -> None:
    totals = {
        "seconds": SLOW_TOOLS,
        "units": [
            Total({"stage": "environment", "outcome": "ok"}, 90),
            Total({"stage": "environment", "outcome": "failed"}, 10),
        ],
        "service_count": [Total({"stage": "reward-server"}, 50), Total({"stage": "trainer"}, 7)],
        "service_sum": [Total({"stage": "reward-server"}, 10), Total({"stage": "trainer"}, 7)],
    }
    parts = {part.name: part for part in way(a_record(totals=totals))}
    assert parts["tools"].seconds == pytest.approx(6.0)
    assert parts["sampling"].seconds == pytest.approx(3.0)
    assert parts["reward"].seconds == pytest.approx(0.2)
    assert parts["train step"].seconds is None
    assert parts["held up"].seconds is None
    assert parts["in experience"].waits


def test_tools_are_listed_by_calls_with_those_that_failed() -> None:
    calls = [("search", "ok", 90), ("search", "timeout", 10), ("shell", "ok", 500), ("unused", "ok", 0)]
    totals = {"tools_count": [Total({"tool": tool, "outcome": outcome}, count) for tool, outcome, count in calls]}
    found = tools(a_record(totals=totals))
    assert [(tool.name, tool.calls, tool.failed) for tool in found] == [("shell", 500, 0), ("search", 100, 10)]
