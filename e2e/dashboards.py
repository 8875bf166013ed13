"""Runs every query of every dashboard against a live Prometheus, as Grafana would, and tells which have no data."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from monitoring.dashboards import dashboards
from monitoring.page import every_query

VARIABLE = re.compile(r"\$(\w+)")
LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
POINTS = 240
"""As many as a panel of ordinary width asks for."""
MAY_BE_EMPTY = {"cluster"}
"""Variables of a label that a Prometheus need not have."""


@dataclass(frozen=True)
class Shown:
    """What somebody looks at: one job, over so many seconds until an instant.

    `scrape_seconds` is the setting of Grafana's data source, which must suit the target that is scraped most seldom.
    """

    namespace: str
    job: str
    seconds: int = 900
    scrape_seconds: int = 15
    end: float = field(default_factory=time.time)

    @property
    def step(self) -> int:
        return max(math.ceil(self.seconds / POINTS), self.scrape_seconds)

    def resolved(self, expression: str) -> str:
        """The query with its variables filled in as Grafana does. KeyError when it has others."""
        values = {
            "cluster": ".*",
            "job": ".+",
            "pod": ".*",
            "stage": ".+",
            "namespace": self.namespace,
            "rl_job": self.job,
            "__rate_interval": f"{max(self.step + self.scrape_seconds, 4 * self.scrape_seconds)}s",
            "__interval": f"{self.step}s",
            "__interval_ms": f"{self.step * 1000}",
            "__range": f"{self.seconds}s",
        }
        return VARIABLE.sub(lambda found: values[found[1]], expression)


def without_data(prometheus: str, shown: Shown, may_lack: Mapping[str, str]) -> list[str]:
    """`dashboard / panel: query` of everything that Prometheus has nothing for; raises on a query that it refuses.

    `may_lack` names what need not be there, each with the reason: a mark, or the beginning of metrics. A query that
    reads one of these may be empty, unless the metric is there after all.
    """
    with httpx.Client(base_url=prometheus, timeout=30, trust_env=False) as client:
        there = _data(client.get("/api/v1/label/__name__/values"))
        lacking = [one for one in may_lack if not any(name.startswith(one) for name in there)]
        found = [
            f"{where}: {query}"
            for where, expression in _queries()
            if not any(where.endswith(f" / {one}") or re.search(rf"\b{re.escape(one)}", expression) for one in lacking)
            and not _has_data(client, query := shown.resolved(expression), shown)
        ]
        return [*found, *_empty_variables(client, shown)]


def _queries() -> Iterator[tuple[str, str]]:
    for name, board in dashboards().items():
        for where, expression in every_query(board):
            yield f"{name} / {where}", expression


def _has_data(client: httpx.Client, query: str, shown: Shown) -> bool:
    """Whether any point of the shown time has a number; what is asked for one instant only is asked for all."""
    times = {"start": shown.end - shown.seconds, "end": shown.end, "step": shown.step}
    rows = _data(client.post("/api/v1/query_range", data={"query": query, **times}))["result"]
    return any(not math.isnan(float(value)) for row in rows for _, value in row["values"])


def _empty_variables(client: httpx.Client, shown: Shown) -> Iterator[str]:
    for name, board in dashboards().items():
        for variable in board["templating"]["list"]:
            asked = LABEL_VALUES.fullmatch(shown.resolved(variable["query"])) if variable["type"] == "query" else None
            if asked is None or variable["name"] in MAY_BE_EMPTY:
                continue
            if not _data(client.get(f"/api/v1/label/{asked['label']}/values", params={"match[]": asked["series"]})):
                yield f"{name} / variable {variable['name']}: {asked[0]}"


def _data(response: httpx.Response) -> Any:
    body = response.json()
    assert body["status"] == "success", (
        f"{body['error']} in {response.request.content.decode() or response.request.url}"
    )
    return body["data"]
