"""A Prometheus that answers the questions of an audit from a record, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from steelyard.audit import queries
from steelyard.audit.histogram import spread
from steelyard.audit.queries import Selector
from steelyard.audit.record import Record

NOTHING: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": []}}


class FakePrometheus:
    """`profiles`: those that the command should have learnt from the job, none when it is gone."""

    def __init__(self, record: Record, profiles: tuple[str, ...], refused: str = "") -> None:
        self._record, self._refused = record, refused
        self._of = Selector(record.namespace, record.name, profiles)
        self.asked: list[str] = []

    @asynccontextmanager
    async def opened(self, *_: object) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://prometheus:9090") as client:
            yield client

    def __call__(self, request: httpx.Request) -> httpx.Response:
        params = dict(request.url.params)
        self.asked.append(params["query"])
        if self._refused and self._refused in params["query"]:
            return httpx.Response(422, json={"status": "error", "errorType": "execution", "error": "too many samples"})
        ranged = request.url.path.endswith("query_range")
        rows = self._range(params["query"]) if ranged else self._instant(params["query"], float(params["time"]))
        return httpx.Response(200, json={**NOTHING, "data": {"resultType": "matrix", "result": rows}})

    def _range(self, query: str) -> list[dict[str, Any]]:
        if query == queries.scrapes(self._of):
            return [{"metric": {}, "values": [[at, "300"] for at in self._record.grid.instants]}]
        figure = self._figure(query, lambda step: queries.lines(self._of, self._record.grid, 1.0, step))
        return [
            {"metric": dict(line.labels), "values": self._values(line.values)} for line in self._record.of(figure or "")
        ]

    def _values(self, values: tuple[float | None, ...]) -> list[list[object]]:
        instants = zip(self._record.grid.instants, values, strict=True)
        return [[at, str(value)] for at, value in instants if value is not None]

    def _instant(self, query: str, at: float) -> list[dict[str, Any]]:
        figure = self._figure(query, lambda _: queries.totals(self._of, self._record.seconds))
        if figure is not None:
            found = self._record.totals.get(figure, ())
            return [{"metric": dict(total.labels), "value": [at, str(total.value)]} for total in found]
        window = min(self._record.windows, key=lambda window: abs(window.end - at))
        metric = query.partition("{")[0]
        return [
            {"metric": {"__name__": metric, "pod": named(pod), **dict(series.labels)}, "values": _text(series.samples)}
            for pod, found in window.rates.samples.get(metric, {}).items()
            for series in found
        ]

    def _figure(self, query: str, asked: Callable[[float], Mapping[str, str]]) -> str | None:
        step = spread(self._record, "step_interval").mean or 0.0
        return next((figure for figure, one in asked(step).items() if one == query), None)


def _text(samples: tuple[tuple[float, float], ...]) -> list[list[object]]:
    return [[at, str(value)] for at, value in samples]


def named(pod: str) -> str:
    """Pods of the simulated pipeline as a Deployment would name them."""
    stem, _, number = pod.rpartition("-")
    return pod if stem.endswith("bus") else f"{stem}-7465874984-{int(number):05}"
