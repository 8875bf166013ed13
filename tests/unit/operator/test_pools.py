"""Jobs that share a pool: they wait, are lent GPUs, give them back by draining, and never hold more than there is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steelyard.api import JobStatus
from steelyard.cluster.view import View
from steelyard.pools.report import NUMBERS_SECONDS
from tests.builders import job_manifest, pool_manifest
from tests.unit.operator.sharing import BIG, SMALL, Sharing

LONG = 3700.0


@pytest.fixture(scope="module")
def all_lent() -> Sharing:
    sharing = Sharing()
    sharing.add("one", "low", BIG)
    asyncio.run(sharing.run())
    assert sharing.gpus("one") == 8
    return sharing


@pytest.fixture
def lent(all_lent: Sharing) -> Sharing:
    """A job of the low queue has all eight GPUs."""
    return all_lent.copy()


async def test_a_job_gets_what_it_asks_for_and_says_who_granted_it() -> None:
    sharing = Sharing()
    sharing.add("one", "low", SMALL)

    await sharing.run()
    await sharing.run(1, seconds=NUMBERS_SECONDS)

    assert sharing.grants == {"one": "3"}
    assert sharing.status("one")["phase"] == "Running"
    assert sharing.status("one")["gpus"] == {"budget": "3", "used": "3"}
    said = ("True", "Granted", "RLPool shared, queue low: 3 GPUs granted, 3 of them borrowed")
    assert sharing.condition("one", "QuotaReserved") == said
    assert sharing.pool_status["conditions"][0]["message"] == "3 of 8 GPUs are used by 1 job"


async def test_a_higher_priority_takes_back_what_was_lent_by_draining(lent: Sharing) -> None:
    lent.add("two", "high", SMALL)

    await lent.drain()

    assert lent.grants == {"one": "5", "two": "3"}
    assert (lent.gpus("one"), lent.gpus("two")) == (5, 3)
    assert max(lent.cluster.gpus) == 8
    moves = [what for what in lent.cluster.writes if "Deployment one-" in what or "delete" in what]
    assert "scale Deployment one-sampler-whole" in moves
    assert not [what for what in moves if what.startswith("delete")], "nobody's pods were killed"
    assert lent.condition("one", "QuotaReserved")[0] == "True"
    assert (
        "its pool no longer allows" in lent.status("one")["lastDecisions"][0]["reason"] or lent.status("one")["phase"]
    )


async def test_a_job_that_waits_runs_nothing_and_says_who_has_the_gpus_and_since_when(lent: Sharing) -> None:
    lent.cluster.drains = True
    lent.add("two", "high", SMALL)
    await lent.run(3)

    status, reason, message = lent.condition("two", "QuotaReserved")

    assert (status, reason) == ("False", "WaitingForGpus")
    assert "of 8 GPUs default/one has 8" in message
    assert "since 2027-01-15T08:00" in message
    assert lent.status("two")["phase"] == "Waiting"
    assert lent.condition("two", "Ready")[:2] == ("False", "WaitingForGpus")
    assert lent.condition("two", "Progressing")[0] == "False"
    assert lent.condition("two", "Stalled")[0] == "False"
    assert lent.status("two")["lastDecisions"][0]["kind"] == "WaitingForGpus"
    assert {n for name, n in lent.cluster.replicas().items() if name.startswith("two-")} == {0}
    assert "two-1" not in lent.cluster.names("AllocationRevision"), "it starts at its own start, not at its least"
    assert lent.row("two")["waitingSince"]
    assert lent.pool_status["waiting"] == 1


async def test_a_job_whose_least_is_taken_stops_as_if_suspended_and_goes_on_later(lent: Sharing) -> None:
    lent.add("two", "high", BIG)
    await lent.drain()
    assert (lent.gpus("one"), lent.gpus("two")) == (0, 8)
    assert {n for name, n in lent.cluster.replicas().items() if name.startswith("one-")} == {0}
    assert [name for name in lent.cluster.names("PersistentVolumeClaim") if name.startswith("one-")]

    lent.change_spec("two", {"suspend": True})
    await lent.drain()

    assert (lent.gpus("one"), lent.gpus("two")) == (8, 0)
    assert lent.status("one")["phase"] == "Running"
    assert max(lent.cluster.gpus) == 8


async def test_a_pool_at_rest_causes_no_write_and_a_new_operator_neither(lent: Sharing) -> None:
    lent.add("two", "high", SMALL)
    await lent.run()
    await lent.run(4, seconds=NUMBERS_SECONDS)
    lent.cluster.writes.clear()

    await lent.run(6, seconds=2.0)
    lent.restart()
    await lent.run(3)

    assert lent.cluster.writes == []


TOO_MUCH = "spec.gpus: gpus 8 must be at least 9, the sum of the queues' guaranteedGpus"
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a queue that does not exist": (
        {},
        {"pool": {"name": "shared", "queue": "gone"}},
        "QueueNotFound",
        "spec.pool.queue: gone: RLPool shared has no such queue",
    ),
    "a queue that does not list the namespace": (
        {"queues.1.namespaces": ["elsewhere"]},
        {},
        "NamespaceNotListed",
        "spec.pool.queue: low: this queue of RLPool shared does not list namespace default",
    ),
    "a pool that does not exist": (
        {},
        {"pool": {"name": "other", "queue": "low"}},
        "PoolNotFound",
        "spec.pool.name: other: there is no such RLPool",
    ),
    "a pool that breaks a rule": (
        {"queues.0.guaranteedGpus": 9},
        {},
        "PoolInvalid",
        f"spec.pool.name: shared: the RLPool breaks a rule: {TOO_MUCH}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_job_never_runs_and_says_which_field_is_to_blame(case: str) -> None:
    pool, job, reason, message = REFUSED[case]
    sharing = Sharing(pool)
    sharing.add("one", "low", {**SMALL, **job})

    await sharing.run(6)

    assert sharing.condition("one", "QuotaReserved") == ("False", reason, message)
    assert sharing.condition("one", "Stalled") == ("True", reason, message)
    assert sharing.status("one")["phase"] == "Stalled"
    assert sharing.cluster.pods() == []
    assert sharing.grants == {}


async def test_an_operator_of_single_namespaces_shares_no_pools_and_says_so() -> None:
    sharing = Sharing()
    sharing.cluster.store.pooling = False
    sharing.add("one", "low", SMALL)

    for _ in range(4):
        await sharing.tick("one")
        sharing.cluster.settle()

    assert sharing.condition("one", "Stalled")[:2] == ("True", "PoolsOff")
    assert "serves single namespaces" in sharing.condition("one", "QuotaReserved")[2]
    assert sharing.cluster.pods() == []


async def test_a_queue_that_no_longer_lists_the_namespace_takes_everything_back(lent: Sharing) -> None:
    lent.change_pool({"queues": [{"name": "low", "namespaces": ["elsewhere"]}]})

    await lent.drain()

    assert lent.gpus("one") == 0
    assert lent.condition("one", "Stalled")[:2] == ("True", "NamespaceNotListed")
    assert lent.grants == {}


async def test_jobs_of_a_deleted_pool_keep_what_they_have_and_cannot_grow(lent: Sharing) -> None:
    lent.add("two", "high", SMALL)
    await lent.drain()
    lent.cluster.delete("RLPool", "shared")
    lent.change_spec("two", {"suspend": True})

    await lent.drain()

    assert lent.gpus("one") == 5
    status, reason, message = lent.condition("one", "QuotaReserved")
    assert (status, reason) == ("False", "PoolNotFound")
    assert message.endswith("there is no such RLPool. The job keeps its 5 GPUs and gets no more")
    assert lent.condition("one", "Ready")[0] == "True"
    assert lent.condition("one", "Stalled")[0] == "False"


async def test_a_pool_whose_spec_breaks_waits_for_a_person(lent: Sharing) -> None:
    lent.change_pool({"gpus": -1})

    await lent.run(2)

    told = {one["type"]: (one["status"], one["reason"]) for one in lent.pool_status["conditions"]}
    assert told == {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")}
    assert lent.grants == {"one": "8"}
    lent.change_pool({"gpus": 8})
    await lent.run(2)
    healed = {one["type"]: one["status"] for one in lent.pool_status["conditions"]}
    assert healed == {"Ready": "True", "Stalled": "False"}


async def test_a_pool_that_comes_back_finds_its_jobs_as_they_are(lent: Sharing) -> None:
    """GitOps deletes and creates: what nobody remembers is read from what jobs have signed for."""
    before = {pod["metadata"]["name"] for pod in lent.cluster.pods()}
    lent.cluster.delete("RLPool", "shared")
    await lent.run(3)
    lent.cluster.create(pool_manifest())

    await lent.run()

    assert lent.grants == {"one": "8"}
    assert {pod["metadata"]["name"] for pod in lent.cluster.pods()} == before


async def test_a_suspended_job_gives_its_gpus_back_and_waits_for_them_when_it_resumes(lent: Sharing) -> None:
    lent.add("two", "low", BIG)
    await lent.run(2)
    lent.change_spec("one", {"suspend": True})
    await lent.drain()
    assert lent.grants == {"two": "8"}
    assert lent.condition("one", "QuotaReserved")[:2] == ("False", "Suspended")
    assert lent.status("one")["gpus"]["budget"] == "0"

    lent.change_spec("one", {"suspend": False})
    await lent.drain()

    assert lent.gpus("one") + lent.gpus("two") == 8
    assert min(lent.gpus("one"), lent.gpus("two")) >= 3, "equals share"


async def test_a_job_that_has_ended_gives_its_gpus_back(lent: Sharing) -> None:
    lent.add("two", "low", BIG)
    lent.cluster.end_trainer("Complete")

    await lent.drain()

    assert lent.grants == {"two": "8"}
    assert lent.condition("one", "Complete")[0] == "True"
    assert lent.condition("one", "QuotaReserved")[:2] == ("False", "Ended")


async def test_the_pods_of_a_deleted_job_count_until_they_are_gone(lent: Sharing) -> None:
    lent.add("two", "low", SMALL)
    lent.cluster.drains = True
    lent.cluster.delete("AgenticRLJob", "one")
    lent.names.remove("one")

    await lent.run(4)
    assert lent.row("one")["gpus"] == "8"
    assert lent.gpus("two") == 0
    lent.cluster.let_go()
    await lent.run(8)

    assert lent.grants == {"two": "3"}
    assert max(lent.cluster.gpus) == 8


async def test_a_job_whose_spec_breaks_keeps_exactly_what_it_has(lent: Sharing) -> None:
    lent.change_spec("one", {"buffer": {"maxExperience": 1}})
    lent.add("two", "high", SMALL)

    await lent.drain(4)

    assert lent.grants == {"one": "8", "two": "0"}
    assert lent.gpus("one") == 8
    assert lent.row("one")["reason"] == "has an invalid spec and keeps what it has"


async def test_a_pool_that_shrinks_is_drained_to_its_new_size(lent: Sharing) -> None:
    lent.change_pool({"gpus": 4})
    await lent.run(1)
    assert lent.pool_status["conditions"][0]["reason"] == "Overdrawn"

    await lent.drain()

    assert lent.gpus("one") == 4
    assert lent.pool_status["conditions"][0]["reason"] == "Sharing"


async def test_a_job_that_has_waited_long_enough_is_served_before_its_equals_and_is_left_its_turn() -> None:
    """One of two jobs fits. Each waits an ageing time, then has its turn; the wait is remembered by the pool alone."""
    sharing = Sharing({"gpus": 3})
    sharing.add("one", "low", SMALL)
    await sharing.run()
    sharing.add("two", "low", SMALL)
    await sharing.run(3)
    assert (sharing.gpus("one"), sharing.gpus("two")) == (3, 0)

    await sharing.run(1, seconds=LONG)
    sharing.restart()
    await sharing.drain()
    assert (sharing.gpus("one"), sharing.gpus("two")) == (0, 3)
    await sharing.run(1, seconds=LONG / 2)
    await sharing.drain()
    assert (sharing.gpus("one"), sharing.gpus("two")) == (0, 3), "it is left what it waited for"

    await sharing.run(1, seconds=LONG)
    await sharing.drain()
    assert (sharing.gpus("one"), sharing.gpus("two")) == (3, 0)
    assert max(sharing.cluster.gpus) <= 3


async def test_jobs_without_a_pool_know_nothing_of_pools(lent: Sharing) -> None:
    lent.cluster.create(job_manifest(SMALL, name="free"))
    lent.names.append("free")

    await lent.run()

    assert lent.gpus("free") == 3
    assert lent.condition("free", "QuotaReserved")[:2] == ("True", "NotRefused")
    assert lent.status("free")["gpus"] == {"budget": "8", "used": "3"}


async def test_children_are_not_written_anew_for_another_grant(lent: Sharing) -> None:
    before = {name: _digest(lent, name) for name in ("one-config",)}
    lent.add("two", "high", SMALL)
    await lent.drain()

    assert {name: _digest(lent, name) for name in before} == before
    config = lent.cluster.get("ConfigMap", "one-config")["data"]["job.json"]
    assert '"pool"' not in config


def _digest(sharing: Sharing, name: str) -> str:
    digest: str = sharing.cluster.get("ConfigMap", name)["metadata"]["annotations"]["steelyard.dev/digest"]
    return digest


async def test_the_cheapest_profiles_are_taken_when_the_grant_allows_no_more() -> None:
    """A grant of the least is the least at the cheapest profiles, though the job starts at whole GPUs."""
    sharing = Sharing({"gpus": 2})
    sharing.add("one", "low", SMALL)

    await sharing.run(20)

    assert sharing.grants == {"one": "2"}
    assert sharing.status("one")["phase"] == "Running"
    assert sharing.gpus("one") == 2


async def test_what_a_pool_does_is_told_and_counted(lent: Sharing) -> None:
    lent.add("two", "high", SMALL)
    await lent.drain()

    told = [event.message for event in lent.cluster.events if event.reason == "GrantsChanged"]
    assert told == ["default/one 0 -> 8", "default/one 8 -> 5", "default/two 0 -> 3"]
    figures = {
        name: lent.telemetry.registry.get_sample_value(f"steelyard_operator_pool_{name}", {"pool": "shared"})
        for name in ("gpus", "gpus_granted", "gpus_used", "jobs", "jobs_waiting", "longest_wait_seconds")
    }
    assert figures == {
        "gpus": 8,
        "gpus_granted": 8,
        "gpus_used": 8,
        "jobs": 2,
        "jobs_waiting": 0,
        "longest_wait_seconds": 0,
    }
    lent.cluster.delete("RLPool", "shared")
    assert await lent.pool.tick(lent.cluster.now) is None
    assert lent.telemetry.registry.get_sample_value("steelyard_operator_pool_gpus", {"pool": "shared"}) is None


class Unsigned:
    """What a job writes, in order: what it signs for and what it scales."""

    def __init__(self, sharing: Sharing) -> None:
        self.writes: list[str] = []
        inner = sharing.cluster.set_status

        async def set_status(view: View, status: JobStatus) -> None:
            self.writes.append(f"sign {status.gpus.budget if status.gpus else 0}")
            await inner(view, status)

        sharing.cluster.set_status = set_status  # type: ignore[method-assign]


async def test_a_job_signs_before_it_uses_and_takes_its_name_off_when_nothing_can_come_any_more(lent: Sharing) -> None:
    lent.add("two", "high", SMALL)
    seen = Unsigned(lent)

    await lent.run(1, settles=False)
    assert "sign 5" not in seen.writes, "the controller has not seen the lower number yet"
    await lent.drain()

    assert [what for what in dict.fromkeys(seen.writes) if what in ("sign 5", "sign 3")] == ["sign 5", "sign 3"]
