"""Jobs that share a pool on a real API server: lent, taken back by draining, and never a GPU too many."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.kube import Object, condition
from tests.integration.operator.operating import Operated, Operator
from tests.integration.operator.sharing import asks, create
from tests.integration.processes import Prometheus
from tests.integration.server import Server

pytestmark = pytest.mark.timeout(240, func_only=True)


def status(server: Server, pool: str) -> Object:
    found = server.get("RLPool", None, pool)
    assert found is not None
    answer: Object = found.get("status", {})
    return answer


def grants(server: Server, pool: str) -> dict[str, str]:
    return {row["job"]: row["gpus"] for row in status(server, pool).get("grants", [])}


def test_the_higher_priority_takes_gpus_back_by_draining_and_all_survives_an_operator(
    operated: Operated, server: Server, pool: str
) -> None:
    operated.start(asks(pool, "low", 4), name="one")
    operated.until("it has all six", lambda: operated.job("one")["status"]["gpus"]["used"] == "6")

    with operated.kubelet.drains_for(1.5), operated.gpu_log() as gpus:
        operated.create(asks(pool, "high", 1), name="two")
        operated.until("it waits and says who has them", lambda: "one has 6" in told(operated, "two"))
        operated.until("it runs", lambda: operated.has("Ready", name="two"))
        operated.until("the other goes on with less", lambda: operated.has("Ready", name="one"))
    assert max(gpus) <= 6
    assert grants(server, pool) == {"one": "3", "two": "3"}
    assert condition(server.get("RLPool", None, pool), "Ready")["status"] == "True"
    assert [event for event in server.list("Event", "default") if event["involvedObject"].get("name") == pool]

    before = {pod["metadata"]["uid"] for pod in operated.pods()}
    operated.operator.kill()
    operated.operator.start()
    rounds = 'steelyard_operator_pool_ticks_total{result="done"}'
    operated.until("the pool is looked at again", lambda: operated.operator.metric(rounds) >= 2)
    assert grants(server, pool) == {"one": "3", "two": "3"}
    assert {pod["metadata"]["uid"] for pod in operated.pods()} == before

    with operated.gpu_log() as gpus:
        operated.change({"suspend": True}, name="two")
        operated.until("the first has all again", lambda: operated.job("one")["status"]["gpus"]["used"] == "6")
    assert max(gpus) <= 6


def told(operated: Operated, name: str) -> str:
    return str(operated.condition("QuotaReserved", name).get("message", ""))


def test_jobs_of_a_deleted_pool_keep_what_they_have_and_are_found_again(
    operated: Operated, server: Server, pool: str
) -> None:
    operated.start(asks(pool, "low", 2), name="one")
    server.delete("RLPool", None, pool)
    operated.until("the loss is said", lambda: operated.condition("QuotaReserved", "one")["reason"] == "PoolNotFound")
    operated.change({"scaling": {"fixed": {"sampler": {"whole": 4}}}}, name="one")
    operated.until("the change was seen", lambda: operated.has("QuotaReserved", "False", "one"))
    assert operated.job("one")["status"]["gpus"]["budget"] == "4"

    create(server, pool, operated.namespace)

    operated.until("it grows", lambda: operated.job("one")["status"]["gpus"]["used"] == "6")
    assert grants(server, pool) == {"one": "6"}


def test_a_namespace_that_no_queue_lists_gets_nothing_and_is_told_which_field_is_to_blame(
    operated: Operated, server: Server, pool: str
) -> None:
    server.patch("RLPool", None, pool, {"spec": {"queues": [{"name": "low", "namespaces": ["elsewhere"]}]}})

    operated.create(asks(pool, "low", 1), name="one")

    operated.until("it is stalled", lambda: operated.has("Stalled", name="one"))
    assert operated.condition("Stalled", "one")["reason"] == "NamespaceNotListed"
    assert "spec.pool.queue: low" in told(operated, "one")
    assert operated.pods() == []


@pytest.fixture
def narrow(operated: Operated, credentials: Path, prometheus: Prometheus) -> Iterator[Operator]:
    """The operator restarted for the test's namespace alone."""
    operated.operator.stop()
    where = credentials, prometheus.url, credentials.parent
    with Operator(sys.executable, *where, identity="narrow", namespaces=operated.namespace) as only:
        yield only
    operated.operator.start()


def test_an_operator_of_one_namespace_shares_no_pools_and_says_so(
    operated: Operated, pool: str, narrow: Operator
) -> None:
    operated.create(asks(pool, "low", 1), name="one")

    operated.until("it is stalled", lambda: operated.has("Stalled", name="one"))
    assert operated.condition("QuotaReserved", "one")["reason"] == "PoolsOff"
    assert operated.pods() == []
    assert "RLPools are off" in narrow.log.read_text()
