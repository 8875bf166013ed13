"""Prometheus behind httpx: real answers in, samples out; every failure is a value with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.types import MetricsProblem, PodView, Rates
from steelyard.metrics import Prometheus
from tests.builders import a_job

NOW = 1_800_000_000.0
Handler = Callable[[httpx.Request], httpx.Response]

UNITS_ANSWER: dict[str, Any] = {  # as Prometheus 3.16 sends it
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {
                    "__name__": "steelyard_stage_units_total",
                    "container": "worker",
                    "endpoint": "http",
                    "instance": "10.0.0.7:8000",
                    "job": "default/calculator",
                    "namespace": "default",
                    "outcome": "ok",
                    "pod": "calculator-environment-6b7f-x2x9z",
                    "stage": "environment",
                },
                "values": [[1799999998.123, "40"], [1799999999.123, "42"], [1800000000.123, "NaN"]],
            },
            {
                "metric": {
                    "__name__": "steelyard_stage_units_total",
                    "namespace": "other",
                    "outcome": "ok",
                    "pod": "calculator-environment-6b7f-x2x9z",
                    "stage": "environment",
                },
                "values": [[1799999998.5, "7"]],
            },
            {
                "metric": {
                    "__name__": "steelyard_stage_units_total",
                    "namespace": "default",
                    "outcome": "ok",
                    "pod": "calculator-environment-gone",
                    "stage": "environment",
                },
                "values": [[1799999998.5, "9"]],
            },
        ],
    },
}
EMPTY: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": []}}
POD = PodView("calculator-environment-6b7f-x2x9z", "uid", Stage.ENVIRONMENT, "default", ready=True)


class Server:
    """Answers queries and counts them."""

    def __init__(self, answer: Callable[[str], Any] | None = None) -> None:
        self.queries: list[str] = []
        self._answer = answer or (lambda query: UNITS_ANSWER if query.startswith(signals.STAGE_UNITS) else EMPTY)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v1/query"
        self.queries.append(request.url.params["query"])
        answer = self._answer(self.queries[-1])
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


def prometheus(server: Handler) -> Prometheus:
    return Prometheus(httpx.AsyncClient(transport=httpx.MockTransport(server), base_url="http://prometheus:9090"))


async def read(server: Handler, now: float = NOW, window_seconds: float = 60.0) -> Rates:
    return await prometheus(server).read(a_job(), [POD], now, window_seconds)


async def test_samples_are_joined_to_live_pods_by_namespace_and_name() -> None:
    rates = await read(Server())
    assert list(rates.samples) == [signals.STAGE_UNITS]
    assert list(rates.samples[signals.STAGE_UNITS]) == [POD.name]
    (series,) = rates.series(signals.STAGE_UNITS, POD.name)
    assert series.samples[:2] == ((1799999998.123, 40.0), (1799999999.123, 42.0))


async def test_labels_that_say_where_a_series_was_scraped_are_dropped() -> None:
    (series,) = (await read(Server())).series(signals.STAGE_UNITS, POD.name)
    assert series.labels == (("outcome", "ok"), ("stage", "environment"))
    assert series.label("outcome") == "ok"
    assert series.label("pod") is None


async def test_the_jobs_bus_is_read_as_well() -> None:
    depth = {"__name__": signals.BUFFER_DEPTH, "namespace": "default", "pod": "calculator-bus-0", "buffer": "tasks"}
    answer = {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": depth, "values": [[1, "5"]]}]},
    }
    rates = await read(Server(lambda query: answer if query.startswith(signals.BUFFER_DEPTH) else EMPTY))
    assert rates.series(signals.BUFFER_DEPTH, "calculator-bus-0")[0].samples == ((1.0, 5.0),)


async def test_one_raw_range_query_per_metric() -> None:
    server = Server()
    await read(server, window_seconds=61.5)
    assert len(server.queries) == len(signals.ALL)
    assert {query for query in server.queries if query.endswith("[62s]")} == {f"{m}[62s]" for m in signals.REQUIRED}


async def test_jobs_share_one_answer_per_interval() -> None:
    server = Server()
    source = prometheus(server)
    for name in ("calculator", "another", "third"):
        await source.read(a_job(name=name), [], NOW + 0.1)
    assert len(server.queries) == len(signals.ALL)
    await source.read(a_job(), [], NOW + 20)
    assert len(server.queries) == len(signals.ALL) + len(signals.REQUIRED)


async def test_jobs_that_ask_at_the_same_time_wait_for_the_same_answer() -> None:
    server = Server()
    source = prometheus(server)
    await asyncio.gather(*(source.read(a_job(name=f"job-{n}"), [POD], NOW) for n in range(20)))
    assert len(server.queries) == len(signals.ALL)


async def test_a_job_that_looks_further_back_widens_the_query_and_the_others_share_it() -> None:
    server = Server()
    source = prometheus(server)
    await source.read(a_job(), [], NOW, 60)
    wide = await source.read(a_job(name="slow"), [], NOW + 1, 600)
    narrow = await source.read(a_job(), [], NOW + 2, 60)
    assert wide.window_seconds == narrow.window_seconds == 600
    assert len(server.queries) == len(signals.ALL) + len(signals.REQUIRED)


async def test_a_job_that_stopped_asking_no_longer_widens_the_query() -> None:
    server = Server()
    source = prometheus(server)
    await source.read(a_job(name="slow"), [], NOW, 600)
    late = await source.read(a_job(), [], NOW + 700, 60)
    assert late.window_seconds == 60


async def test_no_series_is_no_data_and_no_failure() -> None:
    rates = await read(Server(lambda query: EMPTY))
    assert rates.unavailable is None
    assert rates.samples == {}


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def time_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("", request=request)


BAD_DATA = {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end of input"}
FAILURES: dict[str, tuple[Handler, MetricsProblem, str]] = {
    "nobody listens": (refuse, MetricsProblem.UNREACHABLE, "ConnectError: connection refused"),
    "no answer in time": (time_out, MetricsProblem.UNREACHABLE, "ReadTimeout"),
    "a refused query": (
        Server(lambda query: httpx.Response(400, json=BAD_DATA)),
        MetricsProblem.BAD_RESPONSE,
        "(400, bad_data: parse error: unexpected end of input)",
    ),
    "an error that calls itself 200": (Server(lambda query: BAD_DATA), MetricsProblem.BAD_RESPONSE, "bad_data"),
    "a proxy's page": (
        Server(lambda query: httpx.Response(503, text="<html>Service Unavailable</html>")),
        MetricsProblem.BAD_RESPONSE,
        "with status 503 and a body that is not a range vector",
    ),
    "another server's JSON": (
        Server(lambda query: {"status": "success", "data": ["up"]}),
        MetricsProblem.BAD_RESPONSE,
        "not a range vector",
    ),
    "a list": (Server(lambda query: []), MetricsProblem.BAD_RESPONSE, "not a range vector"),
    "a value that is no number": (
        Server(
            lambda query: {"status": "success", "data": {"result": [{"metric": {"pod": "p"}, "values": [[1, "five"]]}]}}
        ),
        MetricsProblem.BAD_RESPONSE,
        "not a range vector",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failing_source_is_a_value_with_its_reason(case: str) -> None:
    server, problem, says = FAILURES[case]
    rates = await read(server)
    assert rates.samples == {}
    assert rates.unavailable is not None
    assert rates.unavailable.problem is problem
    assert says in rates.unavailable.message


async def test_who_read_in_vain_can_still_wait_with_a_time_out() -> None:
    """What a failed TaskGroup of Python 3.11 leaves behind ends the job's task at its next time-out, without a word."""
    assert (await read(refuse)).unavailable is not None
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_one_failing_query_makes_the_whole_picture_unavailable() -> None:
    broken = Server(lambda query: BAD_DATA if query.startswith(signals.KV_USAGE) else UNITS_ANSWER)
    assert (await read(broken)).unavailable is not None


async def test_a_failure_is_shared_too_and_forgotten_at_the_next_interval() -> None:
    """kedacore/keda#4249: one stable outage, and a thousand jobs do not hammer a server that is down."""
    down = True
    server = Server(lambda query: httpx.Response(503, text="down") if down else EMPTY)
    source = prometheus(server)
    first = await source.read(a_job(), [], NOW)
    asked = len(server.queries)
    second = await source.read(a_job(name="another"), [], NOW + 1)
    assert first.unavailable == second.unavailable is not None
    assert len(server.queries) == asked
    down = False
    assert (await source.read(a_job(), [], NOW + 20)).unavailable is None


def about(metric: str, samples: list[tuple[float, str]], **labels: str) -> Server:
    """A server that knows one series, and nothing of any other metric."""
    row = {"metric": {"__name__": metric, **labels}, "values": samples}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [row]}}
    return Server(lambda query: answer if query.startswith(metric) else EMPTY)


async def test_pressure_is_read_by_container_in_the_namespaces_of_our_jobs() -> None:
    """As cAdvisor labels it; the pod's own cgroup and its pause container would count the same wait again."""
    server = about(signals.IO_STALLED, [(1, "5")], namespace="default", pod=POD.name, container="worker", id="/kube")
    rates = await read(server)
    assert rates.series(signals.IO_STALLED, POD.name)[0].samples == ((1.0, 5.0),)
    assert f'{signals.IO_STALLED}{{namespace=~"default",container!="",container!="POD"}}[300s]' in server.queries


async def test_claims_are_found_by_their_own_name() -> None:
    server = about(
        signals.CLAIM_USED,
        [(1, "9e9")],
        namespace="default",
        persistentvolumeclaim="calculator-checkpoints",
        pod="kubelet-exporter",
    )
    rates = await read(server)
    assert rates.series(signals.CLAIM_USED, "calculator-checkpoints")[0].samples == ((1.0, 9e9),)


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "default", "pod": POD.name},
        {"namespace": "gpus", "pod": "dcgm-x1", "exported_namespace": "default", "exported_pod": POD.name},
    ],
    ids=["labels honoured", "labels exported"],
)
async def test_devices_are_joined_to_the_pod_that_uses_them(labels: dict[str, str]) -> None:
    """NVIDIA/gpu-monitoring-tools#214: without honour_labels, "pod" is the exporter's own."""
    rates = await read(about(signals.DEVICE_USED, [(1, "70000")], gpu="0", **labels))
    assert [one.label("gpu") for one in rates.series(signals.DEVICE_USED, POD.name)] == ["0"]


async def test_what_is_optional_may_be_refused_and_the_rest_still_counts() -> None:
    optional = tuple(signals.OPTIONAL)
    server = Server(lambda query: BAD_DATA if query.startswith(optional) else UNITS_ANSWER)
    rates = await read(server)
    assert rates.unavailable is None
    assert set(rates.samples) == set(signals.REQUIRED)


async def test_what_is_optional_is_asked_once_a_minute() -> None:
    server = Server()
    source = prometheus(server)
    for second in range(0, 121, 10):
        await source.read(a_job(), [], NOW + second)
    assert sum(query.startswith(signals.IO_STALLED) for query in server.queries) == 3


async def test_a_matcher_that_would_grow_too_long_is_left_out() -> None:
    server = Server()
    source = prometheus(server)
    await asyncio.gather(*(source.read(a_job(namespace=f"team-{n:04}"), [], NOW) for n in range(400)))
    await source.read(a_job(), [], NOW + 70)
    assert f"{signals.CLAIM_USED}{{}}[300s]" in server.queries
