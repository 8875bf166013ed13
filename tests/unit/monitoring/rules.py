"""The rules of dashboards and queries, those of Grafana's dashboard-linter among them; each tells what breaks it.

Left out of dashboard-linter: template-instance and target-instance (a job's pods come and go with every move, so nobody
chooses one), and the Loki rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import promql_parser as promql

from e2e.dashboards import Shown
from monitoring.catalog import FOREIGN, of_jobs, of_operator, of_workers
from monitoring.page import every_panel, every_query

Board = dict[str, Any]
Rule = Callable[[Board], Iterator[str]]

OURS = {series: one.kind for of in (of_workers, of_operator, of_jobs) for one in of() for series in one.series}
COUNTERS = {name for name, kind in OURS.items() if kind in ("counter", "histogram")}
KNOWN = {*OURS, *(name for metrics in FOREIGN.values() for name in metrics)}
LABELS = {one.name: set(one.labels) for of in (of_workers, of_operator, of_jobs) for one in of()}
EVERYWHERE = {"cluster", "job", "namespace", "pod", "instance", "le"}
THEIRS = {"container", "persistentvolumeclaim", "gpu", "exported_namespace", "exported_pod"}
"""Labels of what others export."""
PARTS = re.compile(r"_(bucket|sum|count)$")
OVER_TIME = ("rate", "irate", "increase", "delta", "deriv", "changes", "resets")
WINDOW = "$__rate_interval"
SHOWN = Shown("rl", "calculator")
SCHEMA = 41


def parsed(expression: str) -> promql.Expr:
    return promql.parse(SHOWN.resolved(expression))


def nodes(expression: promql.Expr) -> list[Any]:
    found: list[Any] = []
    promql.walk(expression, pre_visit=lambda node: found.append(node))
    return found


def selectors(expression: promql.Expr) -> list[Any]:
    return [node for node in nodes(expression) if isinstance(node, promql.VectorSelector)]


def is_known(metric: str) -> bool:
    return metric in KNOWN or (PARTS.sub("", metric) in KNOWN and not metric.startswith("steelyard_"))


def panels(board: Board) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in every_panel(board) if panel["type"] != "row")


def says_what_it_shows(board: Board) -> Iterator[str]:
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        for what in ("title", "description"):
            if not panel.get(what):
                yield f"panel {panel['id']} has no {what}"
        for what in ("unit", "noValue"):
            if not defaults.get(what):
                yield f"{panel['title']} has no {what}"
        used = {selector.name for target in panel["targets"] for selector in selectors(parsed(target["expr"]))}
        if unnamed := [name for name in used if name not in panel["description"]]:
            yield f"{panel['title']} does not name {unnamed}"


def calls_different_panels_by_different_names(board: Board) -> Iterator[str]:
    """Else nobody knows which of them is spoken of; folded rows included."""
    titles = Counter(panel["title"] for panel in panels(board))
    yield from (f"{n} panels are called {title}" for title, n in titles.items() if n > 1)


def has_queries_that_parse(board: Board) -> Iterator[str]:
    for panel in panels(board):
        references = [target["refId"] for target in panel.get("targets", ())]
        if not references or not all(references) or len(set(references)) < len(references):
            yield f"{panel['title']} has the queries {references}"
    for where, expression in every_query(board):
        try:
            parsed(expression)
        except (ValueError, KeyError) as error:
            yield f"{where}: {error!r}"


def asks_for_what_is_measured(board: Board) -> Iterator[str]:
    for where, expression in every_query(board):
        for selector in selectors(parsed(expression)):
            if not is_known(selector.name):
                yield f"{where}: nobody exports {selector.name}"


def can_be_narrowed(board: Board) -> Iterator[str]:
    """Template-job, target-job and template-label-promql: every series by the Prometheus and the scrape job chosen."""
    for where, expression in every_query(board):
        for selector in re.findall(r"\{([^{}]*)\}", expression):
            for wanted in ('cluster=~"$cluster"', 'job=~"$job"'):
                if wanted not in selector:
                    yield f"{where}: {{{selector}}} lacks {wanted}"


def relies_on_labels_that_everybody_has(board: Board) -> Iterator[str]:
    """What a scrape configuration may add, such as the stage of a pod, is not there under a PodMonitor."""
    for where, expression in every_query(board):
        for node in nodes(parsed(expression)):
            if isinstance(node, promql.VectorSelector):
                used = {matcher.name for matcher in node.matchers.matchers}
            elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                used = set(node.modifier.labels)
            else:
                continue
            for selector in selectors(node):
                if lacking := used - EVERYWHERE - LABELS.get(PARTS.sub("", selector.name), THEIRS):
                    yield f"{where}: {selector.name} need not have {sorted(lacking)}"


def treats_counters_as_counters(board: Board) -> Iterator[str]:
    """Target-rate-interval and target-counter-agg: counters inside rate or increase, over Grafana's own interval."""
    for where, expression in every_query(board):
        for function in re.findall(rf"\b(?:{'|'.join(OVER_TIME)})\([^\[\]]*\[([^\]]*)\]", expression):
            if function != WINDOW:
                yield f"{where}: a window of {function}"
        inside = set()
        for node in nodes(parsed(expression)):
            if isinstance(node, promql.Call) and node.func.name in ("rate", "increase", "delta"):
                (selector,) = selectors(node)
                if node.func.name == "delta" and not selector.name.startswith("steelyard_reward"):
                    yield f"{where}: {selector.name} does not fall, so it has a rate"
                inside.add(selector.name)
                if OURS.get(selector.name) == "gauge":
                    yield f"{where}: {node.func.name} of the gauge {selector.name}"
        for selector in selectors(parsed(expression)):
            counts = selector.name in COUNTERS or selector.name.endswith(("_total", "_bucket"))
            if counts and selector.name not in inside:
                yield f"{where}: the counter {selector.name} as it is"


def works_with_any_data_source(board: Board) -> Iterator[str]:
    """Template-datasource and panel-datasource: a variable, and nothing bound to the Grafana it was made in."""
    first, *others = board["templating"]["list"]
    if (first["type"], first["name"], first["query"]) != ("datasource", "datasource", "prometheus"):
        yield f"the first variable is {first['name']}"
    sources = [(variable["name"], variable["datasource"]) for variable in others if variable["type"] == "query"]
    for panel in panels(board):
        sources.append((panel["title"], panel["datasource"]))
        sources += [(f"{panel['title']} {target['refId']}", target["datasource"]) for target in panel["targets"]]
    sources += [(mark["name"], mark["datasource"]) for mark in board["annotations"]["list"]]
    for where, source in sources:
        if source != {"type": "prometheus", "uid": "${datasource}"}:
            yield f"{where} reads {source}"
    if "__inputs" in board or "id" in board:
        yield "it is an export of some Grafana"


def has_variables_that_are_used_and_kept_fresh(board: Board) -> Iterator[str]:
    """Template-on-time-change-reload; a variable that nothing uses misleads."""
    variables = board["templating"]["list"]
    asked = [*(expression for _, expression in every_query(board)), *(str(variable["query"]) for variable in variables)]
    for variable in variables:
        if variable["type"] == "query" and variable["refresh"] != 2:
            yield f"{variable['name']} is read once"
        if not variable.get("description"):
            yield f"{variable['name']} has no description"
        if variable["type"] == "query" and not any(re.search(rf"\${variable['name']}\b", one) for one in asked):
            yield f"nothing uses {variable['name']}"


def can_be_found_and_is_not_edited_by_hand(board: Board) -> Iterator[str]:
    if board["editable"]:
        yield "it is editable"
    if not re.fullmatch(r"steelyard-[a-z]+", board["uid"]):
        yield f"its uid is {board['uid']}"
    if board["tags"] != ["steelyard"] or not any(link["tags"] == ["steelyard"] for link in board["links"]):
        yield "it does not belong to the others"
    if board["schemaVersion"] != SCHEMA:
        yield f"its schema is {board['schemaVersion']}"
    if not board["title"].startswith("Steelyard / ") or not board["description"]:
        yield f"its title is {board['title']}"


def has_its_panels_in_order(board: Board) -> Iterator[str]:
    found = list(every_panel(board))
    if repeated := [number for number, n in Counter(panel["id"] for panel in found).items() if n > 1]:
        yield f"panels share the numbers {repeated}"
    folded = {panel["id"] for row in found for panel in row.get("panels") or ()}
    places = [(panel["id"], panel["gridPos"]) for panel in found if panel["id"] not in folded]
    for number, place in places:
        if place["x"] + place["w"] > 24:
            yield f"panel {number} is beyond the edge"
    for (one, a), (other, b) in combinations(places, 2):
        if abs(a["x"] - b["x"]) < (a["w"] if a["x"] < b["x"] else b["w"]) and (
            abs(a["y"] - b["y"]) < (a["h"] if a["y"] < b["y"] else b["h"])
        ):
            yield f"panel {one} lies on panel {other}"


RULES: tuple[Rule, ...] = (
    says_what_it_shows,
    calls_different_panels_by_different_names,
    has_queries_that_parse,
    asks_for_what_is_measured,
    can_be_narrowed,
    relies_on_labels_that_everybody_has,
    treats_counters_as_counters,
    works_with_any_data_source,
    has_variables_that_are_used_and_kept_fresh,
    can_be_found_and_is_not_edited_by_hand,
    has_its_panels_in_order,
)
