"""Every alert says what is wrong, asks for what is measured, and has a page for whoever is woken by it."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser as promql
import pytest

from monitoring.alerts import DECISIONS, JOBS, OPERATOR, WAITS
from monitoring.dashboards import dashboards
from monitoring.rules import RUNBOOKS, Alert
from tests.unit.monitoring.rules import OURS, is_known, nodes, panels, selectors

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "runbooks"
ALERTS: tuple[Alert, ...] = (*JOBS, *WAITS, *DECISIONS, *OPERATOR)
SECTIONS = ["## What it means", "## What it costs", "## Look first", "## Do"]

every_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.stem for page in PAGES.glob("Steelyard*.md")} == {alert.name for alert in ALERTS}
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@every_alert
def test_a_runbook_says_what_it_means_what_it_costs_where_to_look_and_what_to_do(alert: Alert) -> None:
    page = (PAGES / f"{alert.name}.md").read_text()
    assert page.startswith(f"# {alert.name}\n\n")
    assert [line for line in page.splitlines() if line.startswith("## ")] == SECTIONS
    first = page.split("## Look first\n")[1].split("## Do\n")[0]
    assert "```\nkubectl " in first, "a command to begin with"


@every_alert
def test_a_runbook_sends_nobody_to_a_panel_that_there_is_not(alert: Alert) -> None:
    titles = [panel["title"] for board in dashboards().values() for panel in panels(board)]
    words = re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", (PAGES / f"{alert.name}.md").read_text(), flags=re.DOTALL))

    named = [" ".join(name.split()) for name in re.findall(r'"([^"]+)"', words)]

    assert [name for name in named if not any(title.startswith(name) for title in titles)] == []


@every_alert
def test_an_alert_is_named_graded_and_told(alert: Alert) -> None:
    assert re.fullmatch(r"Steelyard[A-Z]\w+", alert.name)
    assert "{{" not in alert.summary, "the same for every job, so that notifications group"
    assert alert.summary.endswith(".")
    assert alert.description.endswith(".")
    assert alert.rule()["annotations"]["runbook_url"] == f"{RUNBOOKS}/{alert.name}.md"


@every_alert
def test_an_alert_asks_for_what_is_measured(alert: Alert) -> None:
    for selector in selectors(promql.parse(alert.expression)):
        assert is_known(selector.name)


@every_alert
def test_an_alert_rates_counters_and_no_gauges(alert: Alert) -> None:
    for node in nodes(promql.parse(alert.expression)):
        if isinstance(node, promql.Call) and node.func.name in ("rate", "increase"):
            (selector,) = selectors(node)
            assert OURS[selector.name] != "gauge"


@every_alert
def test_an_alert_speaks_only_of_labels_that_it_has(alert: Alert) -> None:
    """Aggregations leave out the pod that told of it: an alert must not begin anew when the operator does."""
    outermost = re.search(r"by \(([^)]*)\)", alert.expression)
    kept = outermost[1].split(", ") if outermost else []
    assert set(re.findall(r"\$labels\.(\w+)", alert.description)) <= set(kept)
    assert not {"pod", "instance"} & set(kept)
    assert "cluster" in kept or alert.expression.startswith("absent(")
