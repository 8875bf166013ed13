"""The past behind httpx: figures on their grid, and a sentence for each that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from steelyard.audit.record import Grid, Line, Total
from steelyard.metrics.history import History

GRID = Grid(1000.0, 15.0, 3)
Handler = Callable[[httpx.Request], httpx.Response]


def history(handler: Handler) -> History:
    return History(httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://prometheus:9090"))


def answer(*rows: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": list(rows)}})


async def test_lines_are_asked_for_on_their_grid_and_have_gaps() -> None:
    asked: list[httpx.URL] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return answer({"metric": {"stage": "sampler"}, "values": [[1000, "1.5"], [1015, "NaN"], [1030, "0"]]})

    found = await history(handler).lines({"states": "sum(x)"}, GRID)
    assert found == {"states": (Line({"stage": "sampler"}, (1.5, None, 0.0)),)}
    assert asked[0].path == "/api/v1/query_range"
    assert dict(asked[0].params) == {"query": "sum(x)", "start": "1000.000", "end": "1030.000", "step": "15"}


async def test_totals_are_asked_for_at_an_instant() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert dict(request.url.params) == {"query": "sum(x)", "time": "1030.000"}
        return answer({"metric": {"le": "+Inf"}, "value": [1030, "7"]}, {"metric": {"le": "1"}, "value": [1030, "NaN"]})

    assert await history(handler).totals({"tools": "sum(x)"}, 1030.0) == {"tools": (Total({"le": "+Inf"}, 7.0),)}


async def test_raw_samples_are_indexed_by_the_pod_that_they_are_about() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return answer(
            {
                "metric": {"__name__": "x", "namespace": "a", "pod": "p", "state": "busy"},
                "values": [[1, "2"], [2, "NaN"]],
            },
            {"metric": {"__name__": "x", "namespace": "a", "pod": "q", "state": "busy"}, "values": [[1, "NaN"]]},
        )

    rates = await history(handler).rates({"x": "x[60s]"}, 1030.0, 60.0)
    assert rates.window_seconds == 60.0
    assert rates.series("x", "p")[0].samples == ((1.0, 2.0),), "JSON has no NaN"
    assert rates.series("x", "q") == ()


async def test_a_figure_without_series_is_absent_and_no_complaint() -> None:
    source = history(lambda _: answer())
    assert await source.lines({"states": "sum(x)"}, GRID) == {}
    assert source.missing == []


async def test_one_refused_question_leaves_the_others_standing() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if "bad" in request.url.params["query"]:
            return httpx.Response(422, json={"status": "error", "errorType": "execution", "error": "too many samples"})
        return answer({"metric": {}, "values": [[1000, "1"]]})

    source = history(handler)
    assert set(await source.lines({"good": "sum(x)", "bad": "sum(bad)"}, GRID)) == {"good"}
    assert source.missing == ["Prometheus refused bad (422, execution: too many samples)"]


async def test_a_server_that_is_not_there_is_a_sentence() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    source = history(handler)
    assert await source.totals({"tools": "sum(x)"}, 0.0) == {}
    assert source.missing == ["Prometheus did not answer for tools: ConnectError: connection refused"]
