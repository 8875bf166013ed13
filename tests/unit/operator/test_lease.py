"""The Lease: exactly one operator may write, and none writes on a claim it cannot be sure of."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from steelyard.cluster.errors import Conflict, NotFound, NotLeader, Unavailable
from steelyard.cluster.lease import DURATION_SECONDS, Lease

Object = dict[str, Any]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """One Lease object, with optimistic locking."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.away = False
        self.version = 0

    async def unfenced(self, method: str, path: str, body: Object | None = None, seconds: float = 5.0) -> Object:
        if self.away:
            raise Unavailable("nobody answers")
        if method == "GET":
            if self.lease is None:
                raise NotFound("no Lease")
            return deepcopy(self.lease)
        assert body is not None
        old = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if body["metadata"].get("resourceVersion") != old:
            raise Conflict("changed meanwhile")
        self.version += 1
        self.lease = deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self.lease


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Server:
    return Server()


def operator(server: Server, clock: Clock, identity: str) -> Lease:
    return Lease(server, "steelyard-system", "steelyard-operator", identity, clock)  # type: ignore[arg-type]


async def test_the_first_one_acts_and_the_second_waits(server: Server, clock: Clock) -> None:
    first, second = operator(server, clock, "first"), operator(server, clock, "second")

    await first._claim()
    await second._claim()

    first.fence()
    with pytest.raises(NotLeader, match="second does not hold"):
        second.fence()


async def test_a_silent_holder_is_replaced_after_its_whole_duration_and_never_before(
    server: Server, clock: Clock
) -> None:
    first, second = operator(server, clock, "first"), operator(server, clock, "second")
    await first._claim()
    await second._claim()

    while not second.held:
        clock.now += 0.5
        await second._claim()
        assert not (first.held and second.held)

    assert clock.now - Clock.now > DURATION_SECONDS


async def test_a_claim_ends_before_it_could_be_taken_even_when_nobody_answers(server: Server, clock: Clock) -> None:
    first = operator(server, clock, "first")
    await first._claim()
    server.away = True

    clock.now += DURATION_SECONDS - 2
    with pytest.raises(Unavailable):
        await first._claim()

    assert not first.held


async def test_a_restarted_container_has_its_lease_at_once(server: Server, clock: Clock) -> None:
    await operator(server, clock, "pod-0")._claim()

    again = operator(server, clock, "pod-0")
    await again._claim()

    assert again.held


async def test_an_orderly_end_hands_the_lease_over_at_once(server: Server, clock: Clock) -> None:
    first, second = operator(server, clock, "first"), operator(server, clock, "second")
    await first._claim()

    await first.release()
    await second._claim()

    assert second.held
    assert not first.held


class Late(Server):
    """Answers reads with what was there before the other one wrote."""

    def __init__(self, real: Server, stale: Object) -> None:
        super().__init__()
        self.real, self.stale = real, stale

    async def unfenced(self, method: str, path: str, body: Object | None = None, seconds: float = 5.0) -> Object:
        return deepcopy(self.stale) if method == "GET" else await self.real.unfenced(method, path, body)


async def test_of_two_that_grab_a_free_lease_one_gets_it(server: Server, clock: Clock) -> None:
    first = operator(server, clock, "first")
    await first._claim()
    await first.release()
    assert server.lease is not None
    second = operator(Late(server, server.lease), clock, "second")

    await first._claim()
    await second._claim()

    assert first.held
    assert not second.held
