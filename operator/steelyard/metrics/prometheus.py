"""What the operator reads: raw samples of one job's live pods, or a typed reason why there are none.

The controller calls `Metrics.read` once a tick. Nothing is computed here: increases, coverage and meaning are the
balance's.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx

from steelyard.api import AgenticRLJob
from steelyard.balance import signals
from steelyard.balance.observe import LONGEST_WINDOW_SECONDS
from steelyard.balance.surroundings import RECENT_SECONDS
from steelyard.balance.types import Instant, MetricsUnavailable, PodView, Rates
from steelyard.children.common import bus_name, checkpoints_name, weights_name
from steelyard.metrics.answers import Index, Unavailable, ask, indexed

log = logging.getLogger(__name__)

QUERIES_IN_FLIGHT = 6
FORGET_SECONDS = 600.0
"""A job that has not read for so long no longer widens the window of the others."""

OPTIONAL_SECONDS = 60.0
"""The optional series change slowly and are asked for so seldom."""
LONGEST_MATCHER = 2000
"""Characters of a matcher of namespaces; beyond, the cluster is mostly ours and all of it is read."""


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


class Prometheus:
    """Reads Prometheus' HTTP API: one raw range query per metric serves all jobs of the operator.

    `client` carries the base URL, time-outs and credentials; they are operator settings, never a job's.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._snapshot: _Snapshot | None = None
        self._asked: dict[tuple[str, str], tuple[Instant, float]] = {}
        self._optional: tuple[Instant, Mapping[str, Index]] = (-OPTIONAL_SECONDS, {})
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
        name = job.metadata.name
        claims = weights_name(name), bus_name(name), checkpoints_name(name)
        names = {pod.name for pod in pods} | {f"{bus_name(name)}-0", *claims}
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
        queries = {metric: f"{metric}[{math.ceil(window)}s]" for metric in signals.REQUIRED}
        limit = asyncio.Semaphore(QUERIES_IN_FLIGHT)
        tasks = {metric: asyncio.create_task(self._query(metric, query, limit)) for metric, query in queries.items()}
        try:  # no TaskGroup: in Python 3.11 a failed one leaves its task half cancelled, to end at the next time-out
            await asyncio.gather(*tasks.values())
        except Unavailable as error:
            return _Snapshot(now, window, {}, error.reason)
        finally:
            for task in tasks.values():
                task.cancel()
        required = {metric: task.result() for metric, task in tasks.items()}
        return _Snapshot(now, window, {**required, **await self._query_optional(now, window)})

    async def _query_optional(self, now: Instant, window: float) -> Mapping[str, Index]:
        """The series that need not be there; one that cannot be read is absent."""
        asked, known = self._optional
        if 0 <= now - asked < OPTIONAL_SECONDS:
            return known
        queries = optional_queries({namespace for namespace, _ in self._asked}, window)
        limit = asyncio.Semaphore(QUERIES_IN_FLIGHT)
        answers = await asyncio.gather(*(self._if_there(metric, query, limit) for metric, query in queries.items()))
        self._optional = now, dict(zip(queries, answers, strict=True))
        return self._optional[1]

    async def _if_there(self, metric: str, query: str, limit: asyncio.Semaphore) -> Index:
        try:
            return await self._query(metric, query, limit)
        except Unavailable as error:
            log.debug("%s", error)
            return {}

    async def _query(self, metric: str, query: str, limit: asyncio.Semaphore) -> Index:
        async with limit:
            return indexed(await ask(self._client, metric, "query", query=query))


def optional_queries(namespaces: set[str], window_seconds: float) -> dict[str, str]:
    """Metric -> query. Exporters of the cluster tell about everybody, so what is not ours is left out at the source.

    Device exporters name the workload's namespace by either of two labels, and there are only so many devices.
    A histogram needs no sample in between: a few evaluations span the window.
    """
    pattern = "|".join(sorted(namespaces))
    ours = f'namespace=~"{pattern}"' if len(pattern) <= LONGEST_MATCHER else ""
    near, far = math.ceil(RECENT_SECONDS), math.ceil(max(window_seconds, RECENT_SECONDS))
    containers = ",".join(filter(None, [ours, 'container!=""', 'container!="POD"']))
    return {
        **{metric: f"{metric}{{{containers}}}[{near}s]" for metric in signals.PRESSURE},
        **{metric: f"{metric}{{{ours}}}[{near}s]" for metric in signals.CLAIMS},
        **{metric: f"{metric}[{near}s]" for metric in signals.DEVICES},
        signals.TRAJECTORY_TOKENS: f'{signals.TRAJECTORY_TOKENS}{{kind="generated"}}[{far}s:{far // 4}s]',
    }
