"""Asks samplers for tokens by token ids, and another one when one is lost, full or leaving."""

import asyncio
import hashlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from steelyard_workers.environment.replicas import Replica, Replicas
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler_protocol import MODEL_NAME, VERSION_HEADER, parse_versions

REST_SECONDS = 1.0
CONNECT_SECONDS = 2.0
KEEPALIVE = [  # a node that dies silently is noticed within half a minute
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]

log = logging.getLogger(__name__)


class Refused(Exception):
    """The sampler says that the request itself is wrong (too long, for one): no other replica would take it."""


class _AskAnother(Exception):
    def __init__(self, reason: str, rest_seconds: float) -> None:
        super().__init__(reason)
        self.rest_seconds = rest_seconds


@dataclass(frozen=True)
class Request:
    """A conversation to go on with. `stop` holds texts, `stop_tokens` single tokens; both stay in the answer."""

    prompt: Sequence[int]
    max_tokens: int
    seed: int
    stop: Sequence[str] = ()
    stop_tokens: Sequence[int] = ()

    def body(self) -> dict[str, Any]:
        """vLLM's form of it."""
        return {
            "model": MODEL_NAME,
            "prompt": list(self.prompt),
            "max_tokens": self.max_tokens,
            "temperature": 1.0,
            "seed": self.seed,
            "stop": list(self.stop),
            "include_stop_str_in_output": True,
            "stop_token_ids": list(self.stop_tokens),
            "skip_special_tokens": False,
            "return_token_ids": True,
            "logprobs": 0,
        }


@dataclass(frozen=True)
class Completion:
    """The policy's tokens with their log-probabilities, the versions that wrote the first and last, and who it was."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool
    first: PolicyVersion
    last: PolicyVersion
    replica: Replica


class Samplers:
    """All samplers of the job."""

    def __init__(self, replicas: Replicas, client: Callable[[], httpx.AsyncClient]) -> None:
        self._replicas = replicas
        self._client = client
        self._idle: list[httpx.AsyncClient] = []

    @classmethod
    @asynccontextmanager
    async def connected(cls, hosts: str, port: int) -> AsyncIterator["Samplers"]:
        """Keep looking for samplers while the block runs."""
        async with Replicas(hosts, port).followed() as replicas:
            samplers = cls(replicas, _client)
            try:
                yield samplers
            finally:
                for client in samplers._idle:
                    await client.aclose()

    async def found(self) -> None:
        """Returns once there is somebody to ask: an episode begun earlier would only use up its time."""
        while True:
            if self._replicas.choose() is not None:
                return
            await asyncio.sleep(REST_SECONDS / 4)

    async def complete(self, request: Request, known: Replica | None = None) -> Completion:
        """An answer from any replica, preferably the one that knows the conversation; Refused when none would give one.

        Waits and retries without end: the episode's deadline is the caller's bound.
        """
        failed: Replica | None = None
        while True:
            replica = self._replicas.choose(known, avoid=failed)
            if replica is None:
                await asyncio.sleep(REST_SECONDS / 4)
                continue
            try:
                completion = await self._ask(replica, request)
            except _AskAnother as error:
                log.info("sampler %s: %s; asking another", replica.address, error)
                self._replicas.failed(replica, error.rest_seconds)
                failed = replica
            else:
                self._replicas.answered(replica)
                return completion

    async def _ask(self, replica: Replica, request: Request) -> Completion:
        replica.inflight += 1
        client = self._idle.pop() if self._idle else self._client()
        try:
            response = await client.post(f"http://{replica.address}/v1/completions", json=request.body())
        except httpx.TransportError as error:
            raise _AskAnother(f"{type(error).__name__} {error}", REST_SECONDS) from error
        finally:
            self._idle.append(client)
            replica.inflight -= 1
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise _AskAnother(f"HTTP {response.status_code}", _retry_after(response))
        if response.status_code != 200:
            raise Refused(f"sampler: HTTP {response.status_code}: {response.text[:500]}")
        return _parse(response, replica)


def _client() -> httpx.AsyncClient:
    """For one request at a time: a client looks through all its connections before each request, so many requests
    that share one would slow each other down."""
    transport = httpx.AsyncHTTPTransport(verify=False, socket_options=KEEPALIVE)  # plain HTTP, no certificates to load
    return httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS))


def turn_seed(seed: int, turn: int) -> int:
    """The sampling seed of one turn: the same for the same trajectory seed, different from turn to turn."""
    digest = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def _retry_after(response: httpx.Response) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else REST_SECONDS


def _parse(response: httpx.Response, replica: Replica) -> Completion:
    try:
        choice = response.json()["choices"][0]
        first, last = parse_versions(response.headers[VERSION_HEADER])
        finish, tokens = choice["finish_reason"], tuple(choice["token_ids"])
        logprobs = tuple(choice["logprobs"]["token_logprobs"]) if tokens else ()
    except (json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise Refused(f"sampler {replica.address} answered something else: {error!r}") from error
    if finish == "abort":  # what vLLM says instead of an error when it is shut down
        raise _AskAnother("the request was aborted", REST_SECONDS)
    return Completion(tokens, logprobs, finish != "length", first, last, replica)
