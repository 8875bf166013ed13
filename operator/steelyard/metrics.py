"""The seam to the metrics source: raw samples of one job's live pods, or a typed reason why there are none.

The controller calls `Metrics.read` once a tick. Nothing is computed here: increases, coverage and meaning are the
balance's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from steelyard.api import AgenticRLJob
from steelyard.balance import signals
from steelyard.balance.observe import LONGEST_WINDOW_SECONDS
from steelyard.balance.types import Instant, MetricsProblem, MetricsUnavailable, PodView, Rates, Series

TARGET_LABELS = frozenset({"__name__", "namespace", "pod", "instance", "job", "container", "endpoint", "steelyard_job"})
"""Labels that say where a series was scraped, not what it measures."""

QUERIES_IN_FLIGHT = 6
FORGET_SECONDS = 600.0
"""A job that has not read for so long no longer widens the window of the others."""

Index = Mapping[tuple[str, str], tuple[Series, ...]]
"""(namespace, pod) -> its series of one metric."""


class Metrics(Protocol):
    """Where the operator reads what the stages measured."""

    async def read(
        self, job: AgenticRLJob, pods: Iterable[PodView], now: Instant, window_seconds: float = 60.0
    ) -> Rates:
        """Samples of the job's live pods and its bus over the last `window_seconds`; a failing source is a value."""
        ...


@dataclass(frozen=True)
class _Snapshot:
    """One answer to all queries, shared by every job that reads within the same interval."""

    at: Instant
    window_seconds: float
    indexes: Mapping[str, Index]
    unavailable: MetricsUnavailable | None = None

    def serves(self, now: Instant, window_seconds: float, max_age: float) -> bool:
        """Whether it is young and wide enough; a failure is shared like an answer, so that no herd asks again."""
        if not 0 <= now - self.at < max_age:
            return False
        return self.unavailable is not None or self.window_seconds >= window_seconds


class _Unavailable(Exception):
    def __init__(self, problem: MetricsProblem, message: str) -> None:
        super().__init__(message)
        self.reason = MetricsUnavailable(problem, message)


class Prometheus:
    """Reads Prometheus' HTTP API: one raw range query per metric serves all jobs of the operator.

    `client` carries the base URL, time-outs and credentials; they are operator settings, never a job's.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._snapshot: _Snapshot | None = None
        self._asked: dict[tuple[str, str], tuple[Instant, float]] = {}
        self._refreshing = asyncio.Lock()

    async def read(
        self, job: AgenticRLJob, pods: Iterable[PodView], now: Instant, window_seconds: float = 60.0
    ) -> Rates:
        namespace = job.metadata.namespace
        window = min(window_seconds, LONGEST_WINDOW_SECONDS)
        self._asked[namespace, job.metadata.name] = (now, window)
        async with self._refreshing:  # jobs that wait here find the answer the first one fetched
            snapshot = self._snapshot
            if snapshot is None or not snapshot.serves(now, window, job.spec.scaling.interval_seconds / 2):
                snapshot = self._snapshot = await self._query_all(now)
        if snapshot.unavailable:
            return Rates(window, unavailable=snapshot.unavailable)
        names = {pod.name for pod in pods} | {f"{job.metadata.name}-bus-0"}
        samples = {
            metric: {name: found for name in names if (found := index.get((namespace, name)))}
            for metric, index in snapshot.indexes.items()
        }
        return Rates(snapshot.window_seconds, {metric: by_pod for metric, by_pod in samples.items() if by_pod})

    def _widest_window(self, now: Instant) -> float:
        """The widest window any job asked for lately, so that one answer serves them all."""
        self._asked = {key: ask for key, ask in self._asked.items() if now - ask[0] < FORGET_SECONDS}
        return max(window for _, window in self._asked.values())

    async def _query_all(self, now: Instant) -> _Snapshot:
        window = self._widest_window(now)
        limit = asyncio.Semaphore(QUERIES_IN_FLIGHT)

        async def one(metric: str) -> Index:
            async with limit:
                return await self._query(metric, window)

        reason: MetricsUnavailable | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {metric: group.create_task(one(metric)) for metric in signals.ALL}
        except* _Unavailable as failed:
            reason = _first(failed)
        if reason:
            return _Snapshot(now, window, {}, reason)
        return _Snapshot(now, window, {metric: task.result() for metric, task in tasks.items()})

    async def _query(self, metric: str, window: float) -> Index:
        try:
            response = await self._client.get("/api/v1/query", params={"query": f"{metric}[{math.ceil(window)}s]"})
        except (httpx.DecodingError, httpx.TooManyRedirects) as error:
            raise _Unavailable(MetricsProblem.BAD_RESPONSE, _sentence(metric, error)) from error
        except httpx.HTTPError as error:
            raise _Unavailable(MetricsProblem.UNREACHABLE, _sentence(metric, error)) from error
        return _index(metric, response)


def _first(failed: BaseExceptionGroup[_Unavailable]) -> MetricsUnavailable:
    error: BaseException = failed
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, _Unavailable)
    return error.reason


def _sentence(metric: str, error: Exception) -> str:
    return f"Prometheus did not answer for {metric}: {type(error).__name__}{f': {error}' if str(error) else ''}"


def _index(metric: str, response: httpx.Response) -> Index:
    """Parse one answer of /api/v1/query, result type matrix."""
    try:
        body = response.json()
        if response.status_code != httpx.codes.OK or body["status"] != "success":
            told = f"{body.get('errorType', 'error')}: {body.get('error', 'no text')}"
            raise _Unavailable(
                MetricsProblem.BAD_RESPONSE, f"Prometheus refused {metric} ({response.status_code}, {told})"
            )
        index: dict[tuple[str, str], tuple[Series, ...]] = {}
        for row in body["data"]["result"]:
            where = row["metric"].get("namespace", ""), row["metric"].get("pod", "")
            index[where] = (*index.get(where, ()), _series(row))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _Unavailable(
            MetricsProblem.BAD_RESPONSE,
            f"Prometheus answered {metric} with status {response.status_code} and a body that is not a range vector",
        ) from error
    return index


def _series(row: Mapping[str, Any]) -> Series:
    labels = tuple(sorted((key, value) for key, value in row["metric"].items() if key not in TARGET_LABELS))
    return Series(labels, tuple((float(at), float(value)) for at, value in row["values"]))
