"""The bus as workers use it: publish until stored, take and keep alive, give up to the dead letters.

Delivery is at least once on every hop; exactly once is the business of the trainer's ledger alone.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg
from nats.js.kv import KeyValue

from steelyard_workers import bus_streams
from steelyard_workers.bus_keys import Keys
from steelyard_workers.bus_patience import (
    LEAVING_SECONDS,
    REQUEST_SECONDS,
    UNREACHABLE,
    BusLost,
    Patience,
    cancellable,
    pauses,
)
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import DeadLetter, Hop, Malformed, Task, TrajectoryId, decode, encode, id_of, subject

M = TypeVar("M", bound=Task)
Waiting = Callable[[], AbstractContextManager[object]]

MAX_DELIVERIES = 5
CONNECT_SECONDS = 120.0
PENDING_BYTES = 64 * 2**20
FULL = (10023, 10047, 10077)  # no room: the server's resources, the account's storage, the stream's bounds

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Delivery(Generic[M]):
    """A message this worker holds. The bus keeps it alive until it is acknowledged, handed back or given up."""

    message: M
    waited_seconds: float
    sequence: int
    _msg: Msg
    _held: "Held"

    @property
    def id(self) -> TrajectoryId:
        """The trajectory it is about."""
        return self.message.id

    @property
    def place(self) -> tuple[type[Task], int]:
        """Where the message lies: every delivery of it has the same one."""
        return type(self.message), self.sequence

    async def ack(self) -> None:
        """Done, and what came of it is stored elsewhere. An acknowledgement lost on the way means one more delivery."""
        await self._end(self._msg.ack)

    async def hand_back(self) -> None:
        """Not done: another worker may have it now."""
        await self._end(self._msg.nak)

    async def give_up(self) -> None:
        """Off the stream without an outcome; the dead letters have it."""
        await self._end(self._msg.term)

    async def keep_alive(self) -> None:
        """Tell the bus that work goes on."""
        with suppress(nats.errors.Error):
            await self._msg.in_progress()

    async def _end(self, say: Callable[[], Any]) -> None:
        if self._held.get(self.place) is self:
            del self._held[self.place]
        with cancellable(), suppress(nats.errors.Error):
            await say()


Held = dict[tuple[type[Task], int], Delivery[Any]]


class Bus:
    """One connection to a job's bus. `keys` is its key-value bucket."""

    keys: Keys

    def __init__(self, job: JobConfig, leaving: asyncio.Event | None, *, set_bounds: bool) -> None:
        self._job = job
        self._set_bounds = set_bounds
        self._leaving = leaving or asyncio.Event()
        self._client = Client()
        self._js: JetStreamContext = self._client.jetstream(timeout=REQUEST_SECONDS)
        self._patience = Patience(lambda: bool(self._client.is_connected))
        self._held: Held = {}
        self._subscriptions: dict[Hop, JetStreamContext.PullSubscription] = {}

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, url: str, job: JobConfig, name: str, leaving: asyncio.Event | None = None, *, set_bounds: bool = False
    ) -> AsyncIterator["Bus"]:
        """A bus with its streams in place while the block runs. Raises BusLost when it cannot be reached.

        Once `leaving` is set, it is waited for a few seconds only. `set_bounds` is for the trainer alone.
        """
        bus = cls(job, leaving, set_bounds=set_bounds)
        try:
            await bus._connect(url, name)
            beside = [asyncio.create_task(bus._beat()), asyncio.create_task(bus._hurry())]
            try:
                yield bus
            finally:
                for task in beside:
                    task.cancel()
                with suppress(*UNREACHABLE):
                    await bus._client.flush(timeout=1)
        finally:
            await bus._client.close()

    async def put(self, message: Task, *, full: Waiting = nullcontext) -> bool:
        """Publish until stored. `full()` is entered for as long as the buffer has no room.

        Returns False when the bus holds, or within the last hour held, a message of this very id.
        Raises Malformed when the message is larger than the bus takes.
        """
        hop = Hop.of(type(message))
        return await self._store(subject(hop.prefix, self._job.name, message.id), message.id, encode(message), full)

    async def publish(self, subject_: str, payload: bytes) -> None:
        """Publish once, best effort (trace spans)."""
        await self._js.publish(subject_, payload, timeout=REQUEST_SECONDS)

    async def take(self, kind: type[M], limit: int, wait_seconds: float = 1.0) -> list[Delivery[M]]:
        """Up to `limit` messages; none when none came in time. Not to be cancelled: it would leave some behind.

        Payloads that do not parse, and messages that already cost MAX_DELIVERIES workers their life, go to the dead
        letters. The trainer is spared the count: it holds whole groups through its own restarts.
        """
        hop = Hop.of(kind)
        try:
            with cancellable():
                messages = await (await self._subscription(hop)).fetch(limit, timeout=wait_seconds)
        except UNREACHABLE as error:
            self._patience.check(f"$JS.API.CONSUMER.MSG.NEXT.{hop.stream}.{hop.consumer}", error)
            if not isinstance(error, TimeoutError):
                await asyncio.sleep(wait_seconds)
            return []
        taken = [await self._admit(kind, hop, message) for message in messages]
        return [delivery for delivery in taken if delivery is not None]

    async def bury(self, delivery: Delivery[Any], reason: str) -> None:
        """Give a message up for good: to the dead letters with its reason, then off its stream."""
        await self._bury(Hop.of(type(delivery.message)), delivery.id, delivery._msg, reason)
        await delivery.give_up()

    async def dead_letters(self, after: int = 0) -> AsyncIterator[tuple[int, DeadLetter]]:
        """Every dead letter with a sequence number above `after`, each with that number; one at a time, for they hold
        whole payloads."""
        api = f"$JS.API.STREAM.MSG.GET.{bus_streams.DEAD}"
        with suppress(nats.js.errors.NotFoundError):
            while True:
                raw = await self._patience.retry(api, partial(self._next_dead, after))
                after = raw.seq or after + 1
                yield after, DeadLetter.model_validate_json(raw.data or b"")

    async def _next_dead(self, after: int) -> RawStreamMsg:
        return await self._js.get_msg(bus_streams.DEAD, seq=after + 1, subject="dead.>", next=True)

    async def stored(self, hop: Hop) -> set[TrajectoryId]:
        """The ids of all messages in a buffer, held ones included."""
        return await self._ids(hop.stream)

    async def buried(self) -> set[TrajectoryId]:
        """The ids of all dead letters."""
        return await self._ids(bus_streams.DEAD)

    async def _ids(self, stream: str) -> set[TrajectoryId]:
        info = await self._patience.retry(
            f"$JS.API.STREAM.INFO.{stream}", lambda: self._js.stream_info(stream, subjects_filter=">")
        )
        return {id_of(name) for name in info.state.subjects or ()}

    async def recall(self, hop: Hop) -> None:
        """Take back at once what a dead holder of this consumer still holds, instead of after the acknowledgement wait.

        Only for a consumer with a single, fenced holder: the trainer.
        """
        await self._patience.retry(
            f"$JS.API.CONSUMER.RESET.{hop.stream}", lambda: self._js.reset_consumer(hop.stream, hop.consumer)
        )

    async def _hurry(self, connecting: asyncio.Timeout | None = None) -> None:
        await self._leaving.wait()
        self._patience.hurry()
        if connecting is not None:
            connecting.reschedule(asyncio.get_running_loop().time() + LEAVING_SECONDS)

    async def _connect(self, url: str, name: str) -> None:
        hurry: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS) as bound:
                hurry = asyncio.create_task(self._hurry(bound))
                with cancellable():
                    await self._client.connect(
                        url,
                        name=name,
                        connect_timeout=2,
                        reconnect_time_wait=0.2,
                        max_reconnect_attempts=-1,
                        pending_size=PENDING_BYTES,
                        error_cb=self._patience.complain,
                        disconnected_cb=self._patience.lost,
                        reconnected_cb=self._restore,
                    )
                bucket = await self._patience.retry("$JS.API.STREAM", self._ensure)
        except TimeoutError as error:
            raise BusLost(f"no bus at {url}; {self._patience.complaint}") from error
        finally:
            if hurry is not None:
                hurry.cancel()
        self.keys = Keys(bucket, self._patience)

    async def _restore(self) -> None:
        """After a reconnect: the server may have come back with an empty volume."""
        try:
            await self._ensure()
        except UNREACHABLE as error:
            log.warning("the bus came back but its streams did not: %s", error)

    async def _ensure(self) -> KeyValue:
        return await bus_streams.ensure(self._js, self._job, set_bounds=self._set_bounds)

    async def _subscription(self, hop: Hop) -> JetStreamContext.PullSubscription:
        if hop not in self._subscriptions:
            self._subscriptions[hop] = await self._js.pull_subscribe_bind(durable=hop.consumer, stream=hop.stream)
        return self._subscriptions[hop]

    async def _admit(self, kind: type[M], hop: Hop, msg: Msg) -> Delivery[M] | None:
        before = msg.metadata.num_delivered - 1
        try:
            if before >= MAX_DELIVERIES and hop is not Hop.EXPERIENCE:
                raise Malformed(f"delivered {before} times and never finished")
            message = decode(kind, msg.data)
        except Malformed as error:
            await self._bury(hop, id_of(msg.subject), msg, str(error))
            await msg.term()
            return None
        age = (datetime.now(UTC) - msg.metadata.timestamp).total_seconds()
        delivery = Delivery(message, max(0.0, age), msg.metadata.sequence.stream, msg, self._held)
        self._held[delivery.place] = delivery  # one that is delivered again takes the place of its earlier delivery
        return delivery

    async def _bury(self, hop: Hop, id_: TrajectoryId, msg: Msg, reason: str) -> None:
        log.error("%s %s goes to the dead letters: %s", hop, id_, reason)
        letter = DeadLetter(id=id_, hop=hop, reason=reason, payload=msg.data.decode(errors="replace"))
        await self._store(subject(f"dead.{hop}", self._job.name, id_), id_, encode(letter), partial(_stuck, id_))

    async def _store(self, subject_: str, id_: TrajectoryId, payload: bytes, full: Waiting) -> bool:
        async def attempt() -> bool | None:
            return await self._store_once(subject_, id_, payload)

        stored = await self._patience.retry(subject_, attempt)
        if stored is not None:
            return stored
        pause = pauses()
        with full():
            while stored is None:
                await asyncio.sleep(next(pause))
                stored = await self._patience.retry(subject_, attempt)
        return stored

    async def _store_once(self, subject_: str, id_: TrajectoryId, payload: bytes) -> bool | None:
        """True: stored now; False: stored before; None: no room."""
        headers = {"Nats-Msg-Id": f"{self._job.name}/{id_}"}
        try:
            receipt = await self._js.publish(subject_, payload, timeout=REQUEST_SECONDS, headers=headers)
        except nats.errors.MaxPayloadError as error:
            raise Malformed(f"{subject_}: {len(payload)} bytes are more than the bus takes") from error
        except nats.js.errors.APIError as error:
            if "per subject" in (error.description or ""):
                return False
            if error.err_code in FULL:
                return None
            raise
        return not receipt.duplicate

    async def _beat(self) -> None:
        """Keep what is held from being delivered to somebody else."""
        while True:
            await asyncio.sleep(bus_streams.ACK_WAIT_SECONDS / 3)
            for delivery in list(self._held.values()):
                await delivery.keep_alive()


@contextmanager
def _stuck(id_: TrajectoryId) -> Iterator[None]:
    log.error("the dead letters have no room for %s: what holds it waits until %s is purged", id_, bus_streams.DEAD)
    yield
