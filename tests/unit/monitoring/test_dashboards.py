"""Every dashboard keeps every rule, and every rule sees what breaks it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from monitoring.dashboards import dashboards
from monitoring.panels import COLORS
from monitoring.promql import of_pods
from steelyard.api import Stage
from steelyard.api.names import BUS
from steelyard.children.common import bus_name, workload_kind, workload_name
from steelyard.cluster.view import slots
from steelyard_workers.clock import State
from tests.builders import WHOLE, a_job
from tests.unit.monitoring import rules
from tests.unit.monitoring.rules import RULES, Board, Rule, panels

BOARDS = dashboards()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard(name: str, rule: Rule) -> None:
    assert list(rule(BOARDS[name])) == []


def first(board: Board) -> dict[str, Any]:
    return next(panels(board))


def query(board: Board, expression: str) -> None:
    first(board)["targets"][0]["expr"] = expression


def select(metric: str) -> str:
    return f'{metric}{{cluster=~"$cluster", job=~"$job"}}'


COUNTER = select("steelyard_operator_ticks_total")
GAUGE = select("steelyard_operator_jobs")

Break = Callable[[Board], object]
BREAKS: dict[str, tuple[Rule, Break]] = {
    "a panel without description": (rules.says_what_it_shows, lambda b: first(b).update(description="")),
    "a panel without unit": (rules.says_what_it_shows, lambda b: first(b)["fieldConfig"]["defaults"].pop("unit")),
    "a panel without words for no data": (
        rules.says_what_it_shows,
        lambda b: first(b)["fieldConfig"]["defaults"].pop("noValue"),
    ),
    "a metric that the description does not name": (rules.says_what_it_shows, lambda b: query(b, GAUGE)),
    "two panels of one name": (
        rules.calls_different_panels_by_different_names,
        lambda b: first(b).update(title=list(panels(b))[1]["title"]),
    ),
    "a query without name": (rules.has_queries_that_parse, lambda b: first(b)["targets"][0].update(refId="")),
    "a panel without queries": (rules.has_queries_that_parse, lambda b: first(b).update(targets=[])),
    "a query that does not parse": (rules.has_queries_that_parse, lambda b: query(b, "sum(")),
    "a variable that there is not": (rules.has_queries_that_parse, lambda b: query(b, 'up{job="$jobs"}')),
    "a metric that nobody exports": (rules.asks_for_what_is_measured, lambda b: query(b, "steelyard_job_speed")),
    "a series of a histogram that is none": (
        rules.asks_for_what_is_measured,
        lambda b: query(b, "steelyard_stage_slots_bucket"),
    ),
    "series of every scrape job": (
        rules.can_be_narrowed,
        lambda b: query(b, 'steelyard_operator_jobs{cluster=~"$cluster"}'),
    ),
    "a label that somebody's relabelling adds": (
        rules.relies_on_labels_that_everybody_has,
        lambda b: query(b, f"sum by (stage) ({select('vllm:num_requests_running')})"),
    ),
    "a label of another metric": (
        rules.relies_on_labels_that_everybody_has,
        lambda b: query(b, 'steelyard_operator_jobs{stage="sampler"}'),
    ),
    "a fixed window": (rules.treats_counters_as_counters, lambda b: query(b, f"rate({COUNTER}[5m])")),
    "a counter as it is": (rules.treats_counters_as_counters, lambda b: query(b, f"sum({COUNTER})")),
    "the rate of a gauge": (rules.treats_counters_as_counters, lambda b: query(b, f"rate({GAUGE}[$__rate_interval])")),
    "a counter that is treated as one that falls": (
        rules.treats_counters_as_counters,
        lambda b: query(b, f"delta({COUNTER}[$__rate_interval])"),
    ),
    "the data source of some Grafana": (
        rules.works_with_any_data_source,
        lambda b: first(b).update(datasource={"type": "prometheus", "uid": "PBFA97CFB590B2093"}),
    ),
    "no variable for the data source": (rules.works_with_any_data_source, lambda b: b["templating"]["list"].pop(0)),
    "a variable that is read once": (
        rules.has_variables_that_are_used_and_kept_fresh,
        lambda b: b["templating"]["list"][1].update(refresh=1),
    ),
    "a variable that nothing uses": (
        rules.has_variables_that_are_used_and_kept_fresh,
        lambda b: b["templating"]["list"][1].update(name="unused"),
    ),
    "a dashboard to be edited": (rules.can_be_found_and_is_not_edited_by_hand, lambda b: b.update(editable=True)),
    "a dashboard of another schema": (
        rules.can_be_found_and_is_not_edited_by_hand,
        lambda b: b.update(schemaVersion=39),
    ),
    "a dashboard without the tag": (rules.can_be_found_and_is_not_edited_by_hand, lambda b: b.update(tags=[])),
    "two panels with one number": (rules.has_its_panels_in_order, lambda b: first(b).update(id=1)),
    "a panel on another": (rules.has_its_panels_in_order, lambda b: first(b)["gridPos"].update(h=20)),
    "a panel beyond the edge": (rules.has_its_panels_in_order, lambda b: first(b)["gridPos"].update(x=22)),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_rule_sees(what: str) -> None:
    rule, breaks = BREAKS[what]
    board = deepcopy(BOARDS["operator"])
    breaks(board)
    assert list(rule(board))


def pods_of(job: str) -> Iterator[tuple[str, str]]:
    """Part and name of each pod, as Kubernetes derives it from the workload's."""
    made = a_job({"stages.environment.gpuProfiles": [WHOLE]} if "gpu" in job else None, name=job)
    yield BUS, f"{bus_name(job)}-0"
    for stage, profile in slots(made):
        workload = workload_name(job, stage, profile)
        yield stage.value, f"{workload}-0-x7k2p" if workload_kind(stage) == "Job" else f"{workload}-7d9c5b6f8-x7k2p"


NAMED_ALIKE = ("a", "a-sampler", "a-environment-gpu", "a-reward-server-2", "a-trainer-bus", "b-a")


@pytest.mark.parametrize("job", NAMED_ALIKE)
@pytest.mark.parametrize("part", [BUS, *Stage])
def test_pods_of_jobs_that_are_named_alike_are_told_apart(job: str, part: str) -> None:
    query = of_pods("up", part).replace("$rl_job", job)
    own, others = (re.compile(found) for found in re.findall(r'pod[=!]~"([^"]+)"', query))

    every = [pod for name in NAMED_ALIKE for _, pod in pods_of(name)]
    found = [pod for pod in every if own.fullmatch(pod) and not others.fullmatch(pod)]

    assert found == [pod for at, pod in pods_of(job) if at == part]


def test_every_stage_of_the_pipeline_is_an_edge_of_the_wait_graph() -> None:
    (graph,) = (panel for panel in panels(BOARDS["job"]) if panel["title"] == "Who waits for whom")
    assert {target["legendFormat"].split()[0] for target in graph["targets"]} == {
        "environment",
        "sampler",
        "reward",
        "trainer",
    }


def overrides(panel: dict[str, Any], kind: str) -> dict[str, Any]:
    """Which series of a panel look otherwise, and how."""
    found = [one for one in panel["fieldConfig"]["overrides"] if one["matcher"]["id"] == kind]
    return {one["matcher"]["options"]: {part["id"]: part["value"] for part in one["properties"]} for one in found}


def test_a_stage_and_a_state_have_one_colour_everywhere() -> None:
    assert set(COLORS["{{stage}}"]) == {stage.value for stage in Stage}
    assert set(COLORS["{{state}}"]) == set(State)
    assert all(len(set(colors.values())) == len(colors) for colors in COLORS.values())

    for panel in (panel for board in BOARDS.values() for panel in panels(board) if panel["type"] == "timeseries"):
        for legend in {target["legendFormat"] for target in panel["targets"]} & COLORS.keys():
            drawn = {name: how["color"]["fixedColor"] for name, how in overrides(panel, "byName").items()}
            assert drawn == COLORS[legend], panel["title"]


def test_what_bounds_the_others_is_a_dashed_line() -> None:
    dashed = {
        panel["title"]: pattern
        for panel in panels(BOARDS["job"])
        if panel["type"] == "timeseries"
        for pattern, how in overrides(panel, "byRegexp").items()
        if how["custom.lineStyle"]["fill"] == "dash"
    }
    assert dashed == {
        "Buffers": "/^.+ bound$/",
        "Trajectories in flight": "/^.+ slots$/",
        "Staleness": "/^limit$/",
        "GPUs by stage": "/^budget$/",
    }


def test_moves_and_verdicts_are_marked_and_each_can_be_turned_off() -> None:
    marks = BOARDS["job"]["annotations"]["list"]
    assert [mark["name"] for mark in marks] == [
        "Replicas added",
        "Replicas taken away",
        "GPU profile changed",
        "Verdict Kept",
        "Verdict RolledBack",
        "Verdict Inconclusive",
    ]
    assert all(mark["useValueForTime"] and mark["expr"].endswith("* 1000") for mark in marks)
    assert not any(mark["hide"] for mark in marks)


def test_the_table_of_all_jobs_leads_to_the_dashboard_of_each() -> None:
    (table,) = (panel for panel in panels(BOARDS["fleet"]) if panel["type"] == "table")
    text = json.dumps(table)
    assert f"/d/{BOARDS['job']['uid']}?" in text
    assert "var-rl_job=${__data.fields.Job}" in text
