"""Which sampler to ask: all that a name resolves to now, the one with the least in flight first.

A Service's own balancing would never reach a new replica over kept-alive connections, so the name is resolved anew
every two seconds and the choice is made here.
"""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

RESOLVE_SECONDS = 2.0
PREFIX_WORTH = 4
"""How many more requests in flight a replica may have and still be asked because it knows the conversation."""
LONGEST_REST = 8
"""How many times its first rest a replica that goes on failing is left alone."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Replica:
    """One sampler as this process sees it."""

    address: str
    inflight: int = 0
    failures: int = 0
    rests_until: float = 0.0


class Replicas:
    """The samplers behind `hosts`: a DNS name, or a comma separated list of host:port."""

    def __init__(self, hosts: str, port: int, now: Callable[[], float] = time.monotonic) -> None:
        self._hosts = [host.strip() for host in hosts.split(",") if host.strip()]
        self._port = port
        self._now = now
        self._known: dict[str, Replica] = {}

    @asynccontextmanager
    async def followed(self) -> AsyncIterator["Replicas"]:
        """Resolve again and again while the block runs."""
        task = asyncio.create_task(self._follow())
        try:
            yield self
        finally:
            task.cancel()

    def choose(self, known: Replica | None = None, avoid: Replica | None = None) -> Replica | None:
        """The best replica to ask now, None when all rest or none is known.

        `known` has the conversation in its prefix cache and is preferred while it is not much busier than the idlest.
        `avoid` just failed this request and is asked again only if there is no other.
        """
        awake = [replica for replica in self._known.values() if replica.rests_until <= self._now()]
        awake = [replica for replica in awake if replica is not avoid] or awake
        if not awake:
            return None
        idlest = min(awake, key=lambda replica: replica.inflight)
        if known is not None and known in awake and known.inflight <= idlest.inflight + PREFIX_WORTH:
            return known
        return idlest

    def failed(self, replica: Replica, rest_seconds: float) -> None:
        """Do not ask this replica for so long, and twice as long each further time that it fails in a row."""
        replica.rests_until = self._now() + rest_seconds * min(2**replica.failures, LONGEST_REST)
        replica.failures += 1

    def answered(self, replica: Replica) -> None:
        """It works: its failures are forgotten."""
        replica.failures = 0

    def update(self, addresses: set[str]) -> None:
        """These are all the replicas there are now; what is known about those that stay is kept."""
        if addresses != self._known.keys():
            log.info("samplers: %s", ", ".join(sorted(addresses)) or "none")
        self._known = {address: self._known.get(address) or Replica(address) for address in sorted(addresses)}

    async def resolve(self) -> None:
        """Look the names up once. A name without an address has no replicas; a look-up that fails changes nothing."""
        addresses: set[str] = set()
        for host in self._hosts:
            name, _, port = host.partition(":")
            try:
                found = await asyncio.get_running_loop().getaddrinfo(name, port or self._port, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                if error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA):
                    log.warning("cannot resolve %s: %s", name, error)
                    return
            else:
                addresses |= {_address(*sockaddr[:2]) for *_, sockaddr in found}
        self.update(addresses)

    async def _follow(self) -> None:
        while True:
            await self.resolve()
            await asyncio.sleep(RESOLVE_SECONDS)


def _address(host: str | int, port: str | int) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
