"""Every retry ends: with an answer, with the reason the server gave, or when the bus stays away too long."""

import asyncio

import pytest
from nats.errors import TimeoutError as NoAnswer
from nats.js.errors import BadRequestError, ServiceUnavailableError

from steelyard_workers.bus_patience import BusDenied, BusLost, Patience, pauses


class Server:
    """Fails with each of `errors` in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def ask(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


async def test_a_server_that_is_away_for_a_moment_is_asked_again() -> None:
    server = Server(NoAnswer(), ConnectionRefusedError(), ServiceUnavailableError(code=503))
    assert await Patience(lambda: False).retry("tasks.j.0.0.0", server.ask) == "answer"


async def test_a_server_that_stays_away_is_given_up() -> None:
    server = Server(*(NoAnswer() for _ in range(1000)))
    with pytest.raises(BusLost, match="tasks"):
        await Patience(lambda: False, seconds=0.1).retry("tasks.j.0.0.0", server.ask)


async def test_patience_begins_when_the_bus_goes_away_not_when_it_was_asked_last() -> None:
    patience = Patience(lambda: False, seconds=0.1)
    await asyncio.sleep(0.2)  # a judge that took its time
    await patience.lost()
    patience.check("tasks.j.0.0.0", NoAnswer())
    await asyncio.sleep(0.2)
    with pytest.raises(BusLost):
        patience.check("tasks.j.0.0.0", NoAnswer())


async def test_a_connected_server_that_never_answers_is_given_up_too() -> None:
    server = Server(*(NoAnswer() for _ in range(1000)))
    with pytest.raises(BusLost, match="no answer for 0 s"):
        await Patience(lambda: True, seconds=0.1).retry("tasks.j.0.0.0", server.ask)


async def test_a_cancellation_that_came_together_with_an_answer_is_not_lost() -> None:
    async def ask() -> str:
        """As asyncio.wait_for of Python 3.11 does, when what it waits for has just come."""
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "answer"
        raise AssertionError("nobody cancelled")

    asking = asyncio.create_task(Patience(lambda: True).retry("tasks.j.0.0.0", ask))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_denied_subject_is_not_asked_again() -> None:
    patience = Patience(lambda: True)
    await patience.complain(Exception('nats: permissions violation for publish to "tasks.j.0.0.0"'))
    server = Server(NoAnswer())
    with pytest.raises(BusDenied, match="permissions violation"):
        await patience.retry("tasks.j.0.0.0", server.ask)
    assert server.asked == 1
    assert await patience.retry("scored.j.0.0.0", Server(NoAnswer()).ask) == "answer", "another subject is not denied"


async def test_a_wrong_request_is_our_bug_and_not_retried() -> None:
    server = Server(BadRequestError(code=400, description="wrong"))
    with pytest.raises(BadRequestError):
        await Patience(lambda: True).retry("$JS.API", server.ask)


def test_pauses_grow_to_a_bound() -> None:
    pause = pauses(first=0.1, longest=0.4)
    taken = [next(pause) for _ in range(20)]
    assert 0.05 <= taken[0] <= 0.1
    assert all(0.2 <= late <= 0.4 for late in taken[3:])
