"""The connection to the API server: what may be written when, and what an answer means."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from steelyard.cluster import kinds
from steelyard.cluster.client import Client, Lane
from steelyard.cluster.errors import (
    ClusterError,
    Conflict,
    Expired,
    NotFound,
    NotLeader,
    Refused,
    Unavailable,
    of_status,
)

REVISION = {"metadata": {"namespace": "default", "name": "calculator-1"}}


class Silent:
    """The library's client of a server that answers nothing."""

    def __init__(self) -> None:
        self.sent: list[aiohttp.ClientTimeout] = []

    async def param_serialize(self, method: str, url: str, **rest: Any) -> tuple[Any, ...]:
        return method, url, {}, rest["body"], ()

    async def call_api(self, *_: Any, _request_timeout: aiohttp.ClientTimeout) -> Any:
        self.sent.append(_request_timeout)
        await asyncio.Event().wait()


def counted(*_: object) -> None:
    """Counts nothing."""


async def test_a_write_that_waited_for_its_turn_is_not_sent_on_a_lease_lost_meanwhile() -> None:
    api = Silent()
    client = Client(api, counted)
    writes = [asyncio.create_task(client.create(kinds.REVISION, REVISION, Lane.STATUS)) for _ in range(9)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(api.sent) == 8, "one waits for its turn"

    def lost() -> float:
        raise NotLeader("operator-0 does not hold the Lease")

    client.fence = lost
    writes[0].cancel()
    done, _ = await asyncio.wait(writes[8:], timeout=1)

    with pytest.raises(NotLeader):
        done.pop().result()
    assert len(api.sent) == 8
    for write in writes:
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)


MEANINGS: dict[str, tuple[int, tuple[str, ...], type[ClusterError]]] = {
    "it is not there": (404, (), NotFound),
    "it was changed meanwhile": (409, (), Conflict),
    "the version is too old": (410, (), Expired),
    "the server is overloaded": (429, (), Unavailable),
    "etcd is away": (503, (), Unavailable),
    "a field breaks a rule": (422, ("FieldValueInvalid",), Refused),
    "a quota, or a right that is missing": (403, (), Refused),
    "a namespace that is being deleted": (403, ("NamespaceTerminating",), Unavailable),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_what_an_answer_means(case: str) -> None:
    """A refusal waits for a person and says so on the job; nobody has to do anything about a job that is going away."""
    status, causes, meaning = MEANINGS[case]

    error = of_status(status, "POST /api: no", causes)

    assert type(error) is meaning
    assert str(error) == "POST /api: no"


@pytest.mark.parametrize(("left", "seconds"), [(7.5, 7.5), (100.0, 20.0)])
async def test_a_write_ends_with_the_claim_that_it_began_on(left: float, seconds: float) -> None:
    """Else its successor could act before it arrives."""
    api = Silent()
    client = Client(api, counted)
    client.fence = lambda: left

    write = asyncio.create_task(client.create(kinds.REVISION, REVISION))
    await asyncio.sleep(0)

    assert [timeout.total for timeout in api.sent] == [seconds]
    write.cancel()
    await asyncio.gather(write, return_exceptions=True)
