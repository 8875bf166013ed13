"""Follows every trajectory: OpenTelemetry spans that say who did what, how long it waited and how long it worked.

All processes derive the same trace id from the trajectory's id, so no context has to travel with the work. Finished
spans go to the bus, where they stay for the job's retention. Tracing is bounded and best effort: when the bus is slow
or gone, spans are dropped and counted, and work goes on.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import nats.errors
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import Tracer as OtelTracer

from steelyard_workers.messages import TrajectoryId, subject

Publish = Callable[[str, bytes], Awaitable[object]]
Value = str | int | float | bool
Record = dict[str, Any]

CAPACITY = 2000
PUBLISH_SECONDS = 2.0
COMPLAIN_SECONDS = 60.0

_OURS = "steelyard."
_SUBJECT = "subject"

log = logging.getLogger(__name__)


class Span:
    """One piece of work on a trajectory. Its time is work, but for what passes inside `waiting`."""

    def __init__(self, tracer: OtelTracer, span: OtelSpan, subject: str, id_: TrajectoryId) -> None:
        self._tracer, self._span, self._subject, self._id = tracer, span, subject, id_
        self._started = time.monotonic()
        self._waits = 0
        self._waits_since = 0.0
        self.waited = 0.0

    def note(self, **attributes: Value) -> None:
        """Attach what only became known on the way."""
        self._span.set_attributes({f"{_OURS}{name}": value for name, value in attributes.items()})

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block waits for somebody else; blocks that overlap are one wait."""
        if not self._waits:
            self._waits_since = time.monotonic()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self.waited += time.monotonic() - self._waits_since

    @contextmanager
    def step(self, name: str, **attributes: Value) -> Iterator["Span"]:
        """A part of this work with its own times."""
        with self._tracer.start_as_current_span(name, context=set_span_in_context(self._span)) as child:
            span = Span(self._tracer, child, self._subject, self._id)
            with span._timed(attributes):
                yield span

    @contextmanager
    def _timed(self, attributes: dict[str, Value]) -> Iterator[None]:
        self._span.set_attribute(_SUBJECT, self._subject)
        self.note(trajectory=str(self._id), group=self._id.group, attempt=self._id.attempt, **attributes)
        try:
            yield
        finally:
            elapsed = time.monotonic() - self._started
            self.note(waited_seconds=self.waited, worked_seconds=max(0.0, elapsed - self.waited))


class Tracer:
    """Makes the spans of one process. `sample_percent` of the trajectories are followed: the same ones everywhere."""

    def __init__(
        self, *, job: str, job_uid: str, stage: str, pod: str, sample_percent: float, spans: SpanProcessor
    ) -> None:
        self._job, self._job_uid = job, job_uid
        self._share = TraceIdRatioBased(sample_percent / 100)
        provider = TracerProvider(
            sampler=ParentBased(self._share),
            resource=Resource({"service.name": stage, "service.instance.id": pod}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(spans)
        self._tracer = provider.get_tracer(__name__)

    @contextmanager
    def follow(self, id_: TrajectoryId, name: str, **attributes: Value) -> Iterator[Span]:
        """Work on the trajectory with this id."""
        context = set_span_in_context(NonRecordingSpan(self._root(id_)))
        with self._tracer.start_as_current_span(name, context=context) as otel_span:
            span = Span(self._tracer, otel_span, subject("spans", self._job, id_), id_)
            with span._timed(attributes):
                yield span

    def _root(self, id_: TrajectoryId) -> SpanContext:
        digest = hashlib.blake2b(f"{self._job_uid}/{id_}".encode(), digest_size=24).digest()
        trace_id = int.from_bytes(digest[:16]) or 1
        followed = self._share.should_sample(None, trace_id, "").decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if followed else TraceFlags.DEFAULT)
        return SpanContext(trace_id, int.from_bytes(digest[16:]) or 1, is_remote=True, trace_flags=flags)


class BusSpans(SpanProcessor):
    """Takes finished spans from any thread and publishes them on spans.<job>.<group>.<k>.<attempt>.

    One message holds all that one process did on a trajectory in one go: a JSON array, the outermost span last.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._queue: asyncio.Queue[tuple[str, list[Record]]] = asyncio.Queue(capacity)
        self._inner: dict[str, list[Record]] = {}
        self._loop = asyncio.get_running_loop()
        self._complained = -COMPLAIN_SECONDS
        self.dropped = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Called by OpenTelemetry for each sampled span that ends."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ended, *_record(span), span.parent is None or span.parent.is_remote)

    @asynccontextmanager
    async def exporting(self, publish: Publish) -> AsyncIterator[None]:
        """Publish spans while the block runs, and for a moment after it what is left."""
        task = asyncio.create_task(self._export(publish))
        try:
            yield
        finally:
            await asyncio.sleep(0)  # spans that have just ended are on their way into the queue
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await self._queue.join()
            except TimeoutError:
                while not self._queue.empty():
                    self._drop("the bus did not take the last spans in time", self._queue.get_nowait()[1])
            task.cancel()

    async def _export(self, publish: Publish) -> None:
        while True:
            where, records = await self._queue.get()
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await publish(where, json.dumps(records).encode())
            except (OSError, TimeoutError, nats.errors.Error) as error:
                self._drop(f"{type(error).__name__} {error}", records)
            finally:
                self._queue.task_done()

    def _ended(self, where: str, record: Record, outermost: bool) -> None:
        records = self._inner.setdefault(where, [])
        records.append(record)
        if not outermost:
            return
        del self._inner[where]
        try:
            self._queue.put_nowait((where, records))
        except asyncio.QueueFull:
            self._drop(f"those of {self._queue.maxsize} trajectories are waiting already", records)

    def _drop(self, reason: str, records: list[Record]) -> None:
        self.dropped += len(records)
        now = time.monotonic()
        if now - self._complained >= COMPLAIN_SECONDS:
            self._complained = now
            log.warning("trace spans are being dropped, %d so far: %s", self.dropped, reason)


def _record(span: ReadableSpan) -> tuple[str, Record]:
    attributes = {name.removeprefix(_OURS): value for name, value in (span.attributes or {}).items()}
    where = str(attributes.pop(_SUBJECT))
    record: Record = {
        "name": span.name,
        "stage": span.resource.attributes["service.name"],
        "pod": span.resource.attributes["service.instance.id"],
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        "parentId": f"{span.parent.span_id:016x}" if span.parent else None,
        "start": (span.start_time or 0) / 1e9,
        "end": (span.end_time or 0) / 1e9,
        "status": span.status.status_code.name,
        **attributes,
    }
    return where, record
