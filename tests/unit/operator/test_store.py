"""The store: the newest of what several sources say, and a call when it matters."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.cluster import kinds
from steelyard.cluster.records import JobKey
from steelyard.cluster.store import FOR_GOOD, Store
from tests.builders import a_revision, job_manifest, pool_manifest

KEY = "default", "calculator"


class Watched(Store):
    """A store that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[JobKey] = []
        self.on_change = self.calls.append


@pytest.fixture
def store() -> Watched:
    store = Watched()
    store.put(kinds.JOB, a_job(1))
    store.calls.clear()
    return store


def a_job(version: int, generation: int = 1, uid: str = "job-1", **metadata: Any) -> dict[str, Any]:
    manifest = job_manifest()
    manifest["metadata"] |= {"uid": uid, "resourceVersion": str(version), "generation": generation, **metadata}
    return manifest


def a_deployment(version: int, replicas: int = 1, uid: str = "d-1") -> dict[str, Any]:
    metadata = {
        "name": "calculator-sampler-whole",
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(version),
        "generation": replicas,
        "labels": {"steelyard.dev/job": "calculator"},
    }
    return {"metadata": metadata, "spec": {"replicas": replicas}}


DEPLOYMENT = kinds.BY_NAME["Deployment"]


def replicas(store: Store) -> int | None:
    view = store.view(KEY, monitored=False)
    assert view is not None
    child = view.children.get(("Deployment", "calculator-sampler-whole"))
    return child.replicas if child else None


def test_an_older_version_does_not_come_back(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5, replicas=3))
    store.put(DEPLOYMENT, a_deployment(4, replicas=2))

    assert replicas(store) == 3


def test_a_late_answer_does_not_revive_what_was_deleted(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5))
    store.remove(DEPLOYMENT, "default", "calculator-sampler-whole", "d-1", 7)
    store.put(DEPLOYMENT, a_deployment(6))
    store.acknowledge(a_deployment(6))

    assert replicas(store) is None
    assert store.acknowledged == {}


def test_a_child_whose_label_was_taken_away_and_put_back_is_the_jobs_again(store: Watched) -> None:
    """A watch of labelled objects says DELETED when only the label went."""
    store.put(DEPLOYMENT, a_deployment(5))
    store.remove(DEPLOYMENT, "default", "calculator-sampler-whole", "d-1", 6)
    store.put(DEPLOYMENT, a_deployment(7, replicas=2))

    assert replicas(store) == 2


def test_a_child_whose_label_names_another_job_is_the_other_jobs_alone(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5))
    moved = a_deployment(6)
    moved["metadata"]["labels"] = {"steelyard.dev/job": "other"}
    store.calls.clear()

    store.put(DEPLOYMENT, moved)

    assert replicas(store) is None
    assert store.calls == [KEY, ("default", "other")]


def test_a_deletion_of_the_one_before_leaves_its_successor(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5))
    store.put(DEPLOYMENT, a_deployment(7, uid="d-2"))
    store.remove(DEPLOYMENT, "default", "calculator-sampler-whole", "d-1", 8)

    assert replicas(store) == 1


def test_nothing_is_remembered_of_the_children_of_jobs_that_are_gone(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5))
    store.acknowledge(a_deployment(5))
    assert store.acknowledged == {"d-1": 1}

    store.remove(DEPLOYMENT, "default", "calculator-sampler-whole", "d-1", 6)

    assert store.acknowledged == {}


def test_only_what_matters_wakes_the_job(store: Watched) -> None:
    store.put(DEPLOYMENT, a_deployment(5))
    assert store.calls == [KEY]

    store.put(DEPLOYMENT, a_deployment(6))
    store.put(kinds.JOB, a_job(7))

    assert store.calls == [KEY], "neither a version alone nor our own status is news"
    store.put(kinds.JOB, a_job(8, generation=2))
    store.put(DEPLOYMENT, a_deployment(9, replicas=2))
    assert store.calls == [KEY] * 3


def test_objects_without_our_label_are_nobodys(store: Watched) -> None:
    foreign = a_deployment(5)
    del foreign["metadata"]["labels"]

    store.put(DEPLOYMENT, foreign)

    assert replicas(store) is None


def test_the_ledger_of_an_earlier_job_of_the_same_name_is_not_ours(store: Watched) -> None:
    for name, owner in {"calculator-1": "an-earlier-job", "calculator-2": "job-1"}.items():
        body = a_revision(int(name[-1])).to_dict()
        body["metadata"] |= {
            "uid": name,
            "resourceVersion": "5",
            "labels": {"steelyard.dev/job": "calculator"},
            "ownerReferences": [{"uid": owner, "controller": True}],
        }
        store.put(kinds.REVISION, body)

    view = store.view(KEY, monitored=False)
    assert view is not None
    assert [revision.spec.number for revision in view.revisions] == [2]


def test_a_revision_written_by_hand_has_no_owner_until_the_operator_adopts_it(store: Watched) -> None:
    body = a_revision(2).to_dict()
    body["metadata"] |= {"uid": "by-hand", "resourceVersion": "5"}
    store.put(kinds.REVISION, body)
    assert store.is_unowned(KEY, "calculator-2")
    adopted = {**body["metadata"], "resourceVersion": "6", "ownerReferences": [{"uid": "job-1", "controller": True}]}
    store.put(kinds.REVISION, {**body, "metadata": adopted})
    assert not store.is_unowned(KEY, "calculator-2")
    assert not store.is_unowned(("default", "nobody"), "calculator-2")


def test_a_revision_that_is_none_is_ignored(store: Watched) -> None:
    body = a_revision().to_dict()
    body["metadata"] |= {"uid": "r", "resourceVersion": "5", "labels": {"steelyard.dev/job": "calculator"}}
    body["spec"]["number"] = "first"

    store.put(kinds.REVISION, body)

    view = store.view(KEY, monitored=False)
    assert view is not None
    assert view.revisions == ()


def test_a_deleted_job_is_gone_and_its_successor_is_another(store: Watched) -> None:
    store.remove(kinds.JOB, *KEY, "job-1", FOR_GOOD)
    assert store.view(KEY, monitored=False) is None
    assert store.calls == [KEY]

    store.put(kinds.JOB, a_job(9, uid="job-2"))
    view = store.view(KEY, monitored=False)
    assert view is not None
    assert view.job.metadata.uid == "job-2"


def pooled(version: int, budget: str = "0", **more: Any) -> dict[str, Any]:
    job = a_job(version, **more)
    job["spec"]["pool"] = {"name": "shared", "queue": "low"}
    return {**job, "status": {"gpus": {"budget": budget, "used": "0"}}}


def a_pool(version: int, generation: int = 1, **grants: str) -> dict[str, Any]:
    manifest = pool_manifest()
    manifest["metadata"] |= {"uid": "pool-1", "resourceVersion": str(version), "generation": generation}
    rows = [
        {"namespace": "default", "job": job, "queue": "low", "gpus": gpus, "used": "0", "since": "2026-01-01T00:00:00Z"}
        for job, gpus in grants.items()
    ]
    return {**manifest, "status": {"grants": rows}}


@pytest.fixture
def sharing(store: Watched) -> tuple[Watched, list[str]]:
    """A pool with one job, and the pools that were called."""
    pools: list[str] = []
    store.put(kinds.JOB, pooled(2, generation=2))
    store.put(kinds.POOL, a_pool(1, calculator="4"))
    store.on_pool_change = pools.append
    store.calls.clear()
    return store, pools


def test_a_changed_grant_wakes_its_job_alone(sharing: tuple[Watched, list[str]]) -> None:
    store, pools = sharing

    store.put(kinds.POOL, a_pool(2, calculator="4", other="1"))
    assert store.calls == [], "nothing of it concerns a job we know"
    store.put(kinds.POOL, a_pool(3, calculator="2"))

    assert store.calls == [KEY]
    assert pools == [], "its own status is no news to a pool"


def test_a_signature_wakes_the_pool_and_not_the_job(sharing: tuple[Watched, list[str]]) -> None:
    store, pools = sharing

    store.put(kinds.JOB, pooled(3, budget="2", generation=2))

    assert (store.calls, pools) == ([], ["shared"])


def test_what_happens_to_a_job_and_to_what_it_leaves_behind_concerns_its_pool(
    sharing: tuple[Watched, list[str]],
) -> None:
    store, pools = sharing
    store.put(DEPLOYMENT, a_deployment(5))
    store.remove(kinds.JOB, *KEY, "job-1", FOR_GOOD)
    store.remove(DEPLOYMENT, "default", "calculator-sampler-whole", "d-1", 6)

    assert pools == ["shared"] * 3


@pytest.mark.parametrize("change", ["its spec", "its end"])
def test_a_pool_that_changes_concerns_itself_and_its_jobs(sharing: tuple[Watched, list[str]], change: str) -> None:
    store, pools = sharing

    if change == "its spec":
        store.put(kinds.POOL, a_pool(2, generation=2, calculator="4"))
    else:
        store.remove(kinds.POOL, "", "shared", "pool-1", FOR_GOOD)

    assert (store.calls, pools) == ([KEY], ["shared"])
    assert store.pools == ({"shared"} if change == "its spec" else set())


def test_pods_of_a_successor_that_names_no_pool_are_none_of_the_pools(sharing: tuple[Watched, list[str]]) -> None:
    store, _ = sharing
    store.remove(kinds.JOB, *KEY, "job-1", FOR_GOOD)
    store.put(kinds.JOB, a_job(9, uid="job-2", creationTimestamp="2026-06-01T00:00:00Z"))
    for name, born in (("old", "2026-05-01T00:00:00Z"), ("new", "2026-06-02T00:00:00Z")):
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "9",
            "creationTimestamp": born,
        }
        labels = {"steelyard.dev/job": "calculator", "steelyard.dev/stage": "sampler"}
        store.put(kinds.POD, {"metadata": {**metadata, "labels": labels}, "spec": {}, "status": {}})

    view = store.pool_view("shared", monitored=False)

    assert view is not None
    assert [pod.name for pod in view.left[KEY]] == ["old"]
    assert view.jobs == {}
