"""Stand-ins at the workers' seams: a bus in memory, samplers that say what they are told."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import httpx
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from tokenizers.decoders import Fuse

from steelyard_workers.environment.replicas import Replicas
from steelyard_workers.environment.samplers import Samplers
from steelyard_workers.environment.tokens import Tokenizer as ModelTokenizer
from steelyard_workers.messages import Malformed, Task, Trajectory, TrajectoryId
from steelyard_workers.sampler_protocol import VERSION_HEADER

CHARACTERS = [chr(code) for code in range(32, 127)]


def tokenizer() -> ModelTokenizer:
    """One token per printable character."""
    backend = Tokenizer(models.WordLevel({c: n for n, c in enumerate(CHARACTERS)}, unk_token=" "))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = Fuse()
    return ModelTokenizer(backend)


def task(group: int = 0, k: int = 0, **record: Any) -> Task:
    return Task(
        id=TrajectoryId(group=group, k=k, attempt=0), task=record or {"prompt": "Q12+34=", "answer": 46}, seed=7
    )


class FakeDelivery:
    """What the bus hands out, and what became of it."""

    def __init__(self, message: Task, waited_seconds: float = 0.1) -> None:
        self.message, self.waited_seconds = message, waited_seconds
        self.fate = "held"

    @property
    def id(self) -> TrajectoryId:
        return self.message.id

    async def ack(self) -> None:
        self.fate = "acked"

    async def hand_back(self) -> None:
        self.fate = "handed back"


class FakeBus:
    """Holds messages to take and messages put; `blocks` is set when a put finds no `room`."""

    def __init__(self, messages: Iterable[Task] = (), largest: int = 10**9) -> None:
        self.deliveries = [FakeDelivery(message) for message in messages]
        self._waiting = list(self.deliveries)
        self._largest = largest
        self.stored: dict[TrajectoryId, Trajectory] = {}
        self.buried: dict[TrajectoryId, str] = {}
        self.room = asyncio.Event()
        self.room.set()
        self.blocks = asyncio.Event()

    async def take(self, kind: type[Task], limit: int, wait_seconds: float = 1.0) -> list[Any]:
        if not self._waiting:
            await asyncio.sleep(0.01)
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return taken

    async def put(self, message: Any, *, full: Callable[[], AbstractContextManager[object]] = nullcontext) -> bool:
        if len(message.model_dump_json()) > self._largest:
            raise Malformed("more than the bus takes")
        if not self.room.is_set():
            with full():
                self.blocks.set()
                await self.room.wait()
        new = message.id not in self.stored
        self.stored[message.id] = message
        return new

    async def bury(self, delivery: FakeDelivery, reason: str) -> None:
        delivery.fate = "buried"
        self.buried[delivery.id] = reason


Script = Callable[[httpx.Request], httpx.Response]


def answer(text: str, version: str = "1.4", finish: str = "stop") -> httpx.Response:
    """A sampler's answer of these characters."""
    tokens = tokenizer().encode(text)
    logprobs = {"token_logprobs": [-0.5] * len(tokens)}
    choice = {"token_ids": tokens, "logprobs": logprobs, "finish_reason": finish}
    return httpx.Response(200, json={"choices": [choice]}, headers={VERSION_HEADER: version})


def samplers(script: Script, *addresses: str) -> Samplers:
    """Samplers at these addresses that answer by script."""
    replicas = Replicas("unused", 8000)
    replicas.update(set(addresses or ("one:8000",)))
    return Samplers(replicas, lambda: httpx.AsyncClient(transport=httpx.MockTransport(script)))
