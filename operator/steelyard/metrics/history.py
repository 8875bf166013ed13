"""What pages read of the past: figures over a span of time, computed by Prometheus, and raw samples of short windows.

`steelyard audit` asks; nothing here decides what is asked. A question that fails leaves its figure out, with a sentence
that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import TypeVar

import httpx

from steelyard.audit.record import Grid, Line, Total, on
from steelyard.balance.types import Instant, Rates, Series
from steelyard.metrics.answers import Row, Unavailable, ask, indexed

QUERIES_IN_FLIGHT = 6
T = TypeVar("T")


class History:
    """Reads Prometheus' HTTP API. `client` carries the base URL, time-outs and credentials."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._limit = asyncio.Semaphore(QUERIES_IN_FLIGHT)
        self.missing: list[str] = []
        """What was asked in vain, a sentence each."""

    async def figure(self, figure: str, query: str, grid: Grid) -> tuple[Line, ...]:
        """The lines of one figure over the grid. Raises Unavailable."""
        step, start, end = f"{grid.step:g}", f"{grid.start:.3f}", f"{grid.end:.3f}"
        rows = await self._ask(figure, "query_range", query=query, start=start, end=end, step=step)
        return tuple(Line(labels, on(grid, samples)) for labels, samples in rows)

    async def lines(self, queries: Mapping[str, str], grid: Grid) -> dict[str, tuple[Line, ...]]:
        """Figure -> its lines over the grid; a figure without series is absent."""

        async def line(figure: str, query: str) -> tuple[Line, ...]:
            return await self.figure(figure, query, grid)

        return await self._all(queries, line)

    async def totals(self, queries: Mapping[str, str], at: Instant) -> dict[str, tuple[Total, ...]]:
        """Figure -> its totals at an instant; a figure without series is absent."""

        async def total(figure: str, query: str) -> tuple[Total, ...]:
            rows = await self._ask(figure, "query", query=query, time=f"{at:.3f}")
            return tuple(Total(labels, samples[-1][1]) for labels, samples in rows if isfinite(samples[-1][1]))

        return await self._all(queries, total)

    async def rates(self, queries: Mapping[str, str], at: Instant, seconds: float) -> Rates:
        """Raw samples of the `seconds` before `at`, as the operator would have read them then."""

        async def series(metric: str, query: str) -> dict[str, tuple[Series, ...]]:
            rows = await self._ask(metric, "query", query=query, time=f"{at:.3f}")
            known = [row for row in map(_short, rows) if row[1]]
            return {name: found for (_, name), found in indexed(known).items()}

        return Rates(seconds, await self._all(queries, series))

    async def _all(self, queries: Mapping[str, str], answer: Callable[[str, str], Awaitable[T]]) -> dict[str, T]:
        answers = await asyncio.gather(*(self._known(answer(*query)) for query in queries.items()))
        return {figure: found for figure, found in zip(queries, answers, strict=True) if found}

    async def _known(self, answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except Unavailable as error:
            self.missing.append(str(error))
            return None

    async def _ask(self, about: str, endpoint: str, **parameters: str) -> list[Row]:
        async with self._limit:
            return await ask(self._client, about, endpoint, **parameters)


def _short(row: Row) -> Row:
    """To the tenth of a millisecond, so that a record is not mostly digits that say nothing; JSON has no NaN."""
    labels, samples = row
    return labels, tuple((at, round(value, 4)) for at, value in samples if isfinite(value))
