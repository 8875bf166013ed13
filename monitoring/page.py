"""What all dashboards have in common: tag, links, variables, the marks of moves and verdicts, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from monitoring.panels import DATASOURCE, Panel
from monitoring.promql import SCRAPED, of_jobs

TAG = "steelyard"
ALL = models.VariableOption(selected=True, text=["All"], value=["$__all"])
EVERY, ANY = ".+", ".*"
"""Values of All: a label that is there, and one that may be absent."""


@dataclass(frozen=True)
class Row:
    """Panels below one heading."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


def page(
    name: str,
    title: str,
    what: str,
    variables: Sequence[Builder[models.VariableModel]],
    *rows: Row,
    marks: Iterable[Mark] = (),
) -> dict[str, Any]:
    """The JSON model of one dashboard; its panels are numbered in their order."""
    board = builders.Dashboard(f"Steelyard / {title}").uid(f"{TAG}-{name}").description(what).tags([TAG])
    board.readonly().timezone("browser").time("now-6h", "now").refresh("1m").tooltip(
        models.DashboardCursorSync.CROSSHAIR
    )
    board.link(
        builders.DashboardLink("Steelyard")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    for variable in (_datasource(), *variables):
        board.with_variable(variable)
    for row in rows:
        heading = builders.Row(row.title)
        if row.folded:
            for panel in row.panels:
                heading.with_panel(panel)
        board.with_row(heading)
        for panel in () if row.folded else row.panels:
            board.with_panel(panel)
    found: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    found["annotations"] = {"list": [mark.as_json() for mark in marks]}
    for number, numbered in enumerate(every_panel(found), start=1):
        numbered["id"] = number
    return found


def every_panel(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows and panels, those inside folded rows too."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels") or ()


def every_query(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(where, PromQL) of panels and annotations, with their variables in them."""
    for panel in every_panel(board):
        for target in panel.get("targets") or ():
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for mark in board["annotations"]["list"]:
        yield mark["name"], mark["expr"]


@dataclass(frozen=True)
class Mark:
    """An annotation whose series' value is its time. The SDK knows nothing of what Prometheus adds to annotations."""

    name: str
    expression: str
    title: str
    text: str
    color: str

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "datasource": DATASOURCE.to_json(),
            "enable": True,
            "hide": False,
            "iconColor": self.color,
            "expr": f"{self.expression} * 1000",
            "useValueForTime": True,
            "titleFormat": self.title,
            "textFormat": self.text,
        }


def moves_and_verdicts() -> tuple[Mark, ...]:
    """One toggle for each direction and verdict."""
    directions = (("up", "Replicas added", "green"), ("down", "Replicas taken away", "orange"))
    moves = (
        Mark(
            name,
            of_jobs("last_move_timestamp_seconds", direction=direction),
            f"{{{{stage}}}}: {name.lower()}",
            "{{rl_namespace}}/{{rl_job}}, by {{origin}}",
            color,
        )
        for direction, name, color in (*directions, ("profile", "GPU profile changed", "blue"))
    )
    verdicts = (("Kept", "green"), ("RolledBack", "red"), ("Inconclusive", "yellow"))
    judged = (
        Mark(
            f"Verdict {verdict}",
            of_jobs("last_verdict_timestamp_seconds", verdict=verdict),
            f"Verdict {verdict}",
            "{{rl_namespace}}/{{rl_job}}",
            color,
        )
        for verdict, color in verdicts
    )
    return (*moves, *judged)


def choice(
    name: str,
    label: str,
    what: str,
    query: str,
    *,
    every: str | None = None,
) -> builders.QueryVariable:
    """A variable whose values are those of a label; `every` is what All stands for, without it there is no All."""
    variable = builders.QueryVariable(name).label(label).description(what).datasource(DATASOURCE)
    variable.query(query).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(models.VariableSort.ALPHABETICAL_ASC).multi(every is not None)
    if every is not None:
        variable.include_all(True).all_value(every).current(ALL)
    return variable


def scraped_by() -> tuple[builders.QueryVariable, builders.QueryVariable]:
    """For a Prometheus of many clusters, and for one that scrapes the same pods twice."""
    return (
        choice(
            "cluster",
            "Cluster",
            "Label `cluster`, where Prometheus has one",
            "label_values(steelyard_operator_lease_held, cluster)",
            every=ANY,
        ),
        choice(
            "job",
            "Scrape job",
            "Label `job` that Prometheus gives to what it scrapes; choose one if pods are scraped twice",
            'label_values({__name__=~"steelyard_operator_lease_held|steelyard_stage_slots"}, job)',
            every=EVERY,
        ),
    )


def namespaces(*, every: bool) -> builders.QueryVariable:
    return choice(
        "namespace",
        "Namespace",
        "Namespace of the jobs",
        f"label_values(steelyard_job_info{{{SCRAPED}}}, rl_namespace)",
        every=EVERY if every else None,
    )


def jobs(*, every: bool) -> builders.QueryVariable:
    return choice(
        "rl_job",
        "Job",
        "AgenticRLJob",
        f'label_values(steelyard_job_info{{{SCRAPED}, rl_namespace=~"$namespace"}}, rl_job)',
        every=EVERY if every else None,
    )


def stages() -> builders.QueryVariable:
    return choice(
        "stage",
        "Stage",
        "Stages whose slot time is shown",
        f'label_values(steelyard_job_stage_gpus{{{SCRAPED}, rl_namespace=~"$namespace"}}, stage)',
        every=EVERY,
    )


def _datasource() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data source").description("A Prometheus").type("prometheus")
