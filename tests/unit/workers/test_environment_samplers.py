"""Which sampler is asked, and what happens when it does not answer."""

import asyncio
import json

import httpx
import pytest

from steelyard_workers.environment import samplers as module
from steelyard_workers.environment.replicas import PREFIX_WORTH, Replica, Replicas
from steelyard_workers.environment.samplers import Refused, Request, Samplers, turn_seed
from steelyard_workers.messages import PolicyVersion
from steelyard_workers.sampler_protocol import VERSION_HEADER
from tests.unit.workers.fakes import answer, samplers

REQUEST = Request(prompt=[1, 2, 3], max_tokens=8, seed=5, stop_tokens=[9])


@pytest.fixture(autouse=True)
def _short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_SECONDS", 0.02)


def replicas(**inflight: int) -> tuple[Replicas, dict[str, Replica]]:
    found = Replicas("unused", 8000, now=lambda: 100.0)
    found.update(set(inflight))
    known = {}
    for address, count in inflight.items():
        replica = found._known[address]
        replica.inflight = count
        known[address] = replica
    return found, known


@pytest.mark.parametrize(
    ("inflight", "knows", "avoid", "want"),
    [
        ({"a": 3, "b": 1}, None, None, "b"),
        ({"a": 1 + PREFIX_WORTH, "b": 1}, "a", None, "a"),
        ({"a": 2 + PREFIX_WORTH, "b": 1}, "a", None, "b"),
        ({"a": 0, "b": 9}, "a", "a", "b"),
        ({"a": 0}, "a", "a", "a"),
        ({"a": 0, "b": 1}, "gone", None, "a"),
        ({}, None, None, None),
    ],
    ids=[
        "the one with the least in flight",
        "the one that knows the conversation, while it is not much busier",
        "another when the knowing one is much busier",
        "not the one that just failed",
        "the one that failed when there is no other",
        "another when the knowing one is gone",
        "none when there is none",
    ],
)
def test_the_choice_of_a_replica(
    inflight: dict[str, int], knows: str | None, avoid: str | None, want: str | None
) -> None:
    found, known = replicas(**inflight)
    knowing = known.get(knows, Replica("gone")) if knows else None
    chosen = found.choose(knowing, known[avoid] if avoid else None)
    assert (chosen.address if chosen else None) == want


def test_a_resting_replica_is_left_alone_until_its_time() -> None:
    found, known = replicas(a=0, b=5)
    found.failed(known["a"], 3)
    assert found.choose() is known["b"]
    known["a"].rests_until = 100.0
    assert found.choose() is known["a"]


def test_a_replica_that_goes_on_failing_rests_longer_and_longer_until_it_answers() -> None:
    found, known = replicas(a=0)

    def rest() -> float:
        found.failed(known["a"], 1)
        return known["a"].rests_until - 100.0

    assert [rest() for _ in range(5)] == [1, 2, 4, 8, 8]
    found.answered(known["a"])
    assert rest() == 1


def test_a_new_replica_is_found_and_one_that_stays_keeps_its_count() -> None:
    found, known = replicas(a=2, b=1)
    found.update({"a", "c"})
    assert found.choose() is not known["b"]
    assert found._known["a"] is known["a"]


async def test_a_list_of_addresses_needs_no_resolver() -> None:
    found = Replicas("127.0.0.1:81, 127.0.0.1:82", 8000)
    await found.resolve()
    assert set(found._known) == {"127.0.0.1:81", "127.0.0.1:82"}


async def test_a_name_that_does_not_exist_yet_has_no_replicas() -> None:
    found = Replicas("nothing.invalid", 8000)
    await found.resolve()
    assert found.choose() is None


async def test_tokens_logprobs_versions_come_back_and_ids_went_out() -> None:
    sent: list[httpx.Request] = []

    def script(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer("C1+2>", version="1.4, 1.5")

    completion = await samplers(script).complete(REQUEST)
    body = json.loads(sent[0].content)
    assert (completion.first, completion.last) == (PolicyVersion(1, 4), PolicyVersion(1, 5))
    assert len(completion.tokens) == len(completion.logprobs) == 5
    assert completion.finished
    assert body["prompt"] == [1, 2, 3]
    assert (body["seed"], body["stop_token_ids"], body["return_token_ids"]) == (5, [9], True)


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


@pytest.mark.parametrize(
    "failure",
    [
        lambda _: httpx.Response(503, text="draining", headers={"Retry-After": "0"}),
        lambda _: httpx.Response(500, text="EngineDeadError"),
        lambda _: httpx.Response(429),
        lambda _: answer("C1", finish="abort"),
        lost,
    ],
    ids=["draining", "its worker was killed", "too many requests", "aborted with 200", "connection lost"],
)
async def test_another_replica_takes_over_when_one(failure: object) -> None:
    """vllm-project/vllm#24885 and verl-project/verl#6583: a replica that leaves or dies costs no trajectory."""
    asked: list[str] = []

    def script(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if len(asked) == 1:
            return failure(request)  # type: ignore[no-any-return, operator]
        return answer("C1+2>")

    completion = await asyncio.wait_for(samplers(script, "one:8000", "two:8000").complete(REQUEST), 5)
    assert completion.finished
    assert len(set(asked)) == 2


async def test_a_single_replica_is_asked_again_after_a_rest() -> None:
    answers = [httpx.Response(503), httpx.Response(503), answer("C1+2>")]
    completion = await asyncio.wait_for(samplers(lambda _: answers.pop(0)).complete(REQUEST), 5)
    assert completion.finished


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(400, text="This model's maximum context length is 512 tokens"),
        httpx.Response(200, json={"choices": []}, headers={VERSION_HEADER: "1.4"}),
        httpx.Response(200, json={"choices": [{"token_ids": [1], "logprobs": None, "finish_reason": "stop"}]}),
    ],
    ids=["too long", "no choices", "no version"],
)
async def test_an_answer_that_another_replica_would_give_too_is_not_asked_for_again(response: httpx.Response) -> None:
    with pytest.raises(Refused):
        await samplers(lambda _: response).complete(REQUEST)


async def test_requests_in_flight_are_counted_also_when_they_are_given_up() -> None:
    held = asyncio.Event()

    async def hang(_: httpx.Request) -> httpx.Response:
        await held.wait()
        return answer("C1+2>")

    replicas = Replicas("unused", 8000)
    replicas.update({"one:8000"})
    client = Samplers(replicas, lambda: httpx.AsyncClient(transport=httpx.MockTransport(hang)))
    request = asyncio.create_task(client.complete(REQUEST))
    await asyncio.sleep(0.01)
    (replica,) = replicas._known.values()
    assert replica.inflight == 1
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert replica.inflight == 0


def test_seeds_of_turns_differ_and_repeat() -> None:
    seeds = [turn_seed(seed, turn) for seed in range(50) for turn in range(4)]
    assert len(set(seeds)) == 200
    assert seeds == [turn_seed(seed, turn) for seed in range(50) for turn in range(4)]
    assert all(0 <= seed < 2**63 for seed in seeds)
