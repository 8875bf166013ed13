"""Reads what `trace` wrote: the spans of trajectories, off the bus of a job. For tools that people run; reads only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from steelyard_workers.bus_streams import SPANS

ONCE: Mapping[str, Any] = {
    "connect_timeout": 5,
    "allow_reconnect": False,
    "max_reconnect_attempts": 1,
    "reconnect_time_wait": 0,
}
"""Who looks at a trace would rather know than wait."""
FETCH_SECONDS = 10.0
BATCH = 500
FORGET_SECONDS = 30.0
"""After so long the server forgets a reader that went away."""
_OWN = frozenset(("name", "stage", "pod", "traceId", "spanId", "parentId", "start", "end", "status", "trajectory"))
_TIMES = frozenset(("waited_seconds", "worked_seconds"))


class Unreadable(Exception):
    """The bus does not answer, or has no spans; the text says which."""


@dataclass(frozen=True)
class Span:
    """One piece of work on a trajectory. Times are unix seconds of the machine that worked."""

    trajectory: str
    """`group/k/attempt`."""
    name: str
    """episode, generate, tool, score or train."""
    stage: str
    pod: str
    id: str
    parent: str | None
    start: float
    end: float
    failed: bool = False
    waited: float = 0.0
    """Seconds of it in which it waited for somebody else."""
    worked: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else was noted, such as `tokens` or `reward`."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Span:
        """Raises KeyError, TypeError or ValueError for what `trace` did not write."""
        return cls(
            trajectory=str(record["trajectory"]),
            name=str(record["name"]),
            stage=str(record["stage"]),
            pod=str(record["pod"]),
            id=str(record["spanId"]),
            parent=record["parentId"],
            start=float(record["start"]),
            end=float(record["end"]),
            failed=record["status"] == "ERROR",
            waited=float(record.get("waited_seconds", 0.0)),
            worked=float(record.get("worked_seconds", 0.0)),
            about={key: value for key, value in record.items() if key not in _OWN | _TIMES},
        )

    @property
    def seconds(self) -> float:
        return max(self.end - self.start, 0.0)


@dataclass(frozen=True)
class Window:
    """Spans that the bus still has."""

    spans: tuple[Span, ...]
    left_out: int = 0
    """Messages that were not read any more, because there were too many."""


async def read(url: str, job: str, trajectory: str | None, since: datetime | None, most: int) -> Window:
    """The spans of one job, of a trajectory (`12`, `12/3` or `12/3/0`) if one is named, from `since` on.

    At most `most` messages, the oldest first; one holds what one process did on a trajectory in one go.
    Raises Unreadable.
    """
    async with _connected(url) as client:
        try:
            return await _read(client, job, trajectory, since, most)
        except nats.js.errors.NotFoundError as error:
            raise Unreadable(f"the bus has no stream {SPANS}: no worker has connected to it yet") from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unreadable(f"the bus does not answer: {error!r}") from error


async def _read(client: Client, job: str, trajectory: str | None, since: datetime | None, most: int) -> Window:
    config = ConsumerConfig(
        ack_policy=AckPolicy.NONE,
        deliver_policy=DeliverPolicy.BY_START_TIME if since else DeliverPolicy.ALL,
        opt_start_time=since.astimezone(UTC) if since else None,
        inactive_threshold=FORGET_SECONDS,
        mem_storage=True,
    )
    subjects = f"spans.{job}.{trajectory.replace('/', '.')}.>" if trajectory else f"spans.{job}.>"
    if trajectory and trajectory.count("/") == 2:
        subjects = subjects.removesuffix(".>")
    subscription = await client.jetstream().pull_subscribe(subjects, stream=SPANS, config=config)
    pending = (await subscription.consumer_info()).num_pending or 0
    spans: list[Span] = []
    taken = 0
    while pending and taken < most:
        messages = await subscription.fetch(min(BATCH, pending, most - taken), timeout=FETCH_SECONDS)
        for message in messages:
            spans += _parsed(message.data)
        taken += len(messages)
        pending = messages[-1].metadata.num_pending
    return Window(tuple(spans), pending)


def _parsed(payload: bytes) -> list[Span]:
    """The spans of a message; none of what another release wrote in another form."""
    try:
        return [Span.of(record) for record in json.loads(payload)]
    except (ValueError, KeyError, TypeError):
        return []


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Client]:
    told: list[Exception] = []

    async def tell(error: Exception) -> None:
        told.append(error)

    try:
        client = await nats.connect(url, error_cb=tell, **ONCE)
    except (nats.errors.Error, TimeoutError, OSError) as error:
        raise Unreadable(f"the bus cannot be reached: {told[-1] if told else error!r}") from error
    try:
        yield client
    finally:
        await client.close()
