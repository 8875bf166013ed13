"""The API server's half of the accept/reject table, and what kubectl shows of the resources."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.kube import PLURALS, Object
from steelyard.api import AgenticRLJob, AllocationRevision, Origin, RLPool
from tests.builders import a_revision, job_manifest, pool_manifest
from tests.integration.server import Refused, Server
from tests.unit.api.cases import (
    ACCEPTED,
    IMMUTABLE,
    MUTABLE,
    NEVER_TO_BE_LEFT,
    POOLED,
    POOLS_ACCEPTED,
    POOLS_REFUSED,
    REFUSED,
    Case,
    Refusal,
)

EXAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "examples").glob("*.yaml"))


def create(server: Server, manifest: Object) -> Object:
    return _post(server, manifest)


def dry_run(server: Server, manifest: Object) -> Object:
    return _post(server, manifest, dryRun="All")


def _post(server: Server, manifest: Object, **params: str) -> Object:
    return server.request("POST", _path(manifest), manifest, params={"fieldValidation": "Strict", **params})


def replace(server: Server, manifest: Object) -> Object:
    path = f"{_path(manifest)}/{manifest['metadata']['name']}"
    found = server.request("GET", path)
    metadata = {**manifest["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
    return server.request("PUT", path, {**manifest, "metadata": metadata}, params={"dryRun": "All"})


def _path(manifest: Object) -> str:
    api, plural = PLURALS[manifest["kind"]]
    namespace = manifest["metadata"].get("namespace")
    return f"/{api}/namespaces/{namespace}/{plural}" if namespace else f"/{api}/{plural}"


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.why)
def test_the_api_server_accepts_and_fills_in_the_same_defaults_as_the_types(server: Server, case: Case) -> None:
    manifest = job_manifest(case.changes, name=case.name)

    stored = dry_run(server, manifest)

    assert AgenticRLJob.model_validate(stored).spec == AgenticRLJob.model_validate(manifest).spec


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.why)
def test_the_api_server_refuses_and_names_field_value_and_rule(server: Server, case: Refusal) -> None:
    with pytest.raises(Refused) as refusal:
        dry_run(server, job_manifest(case.changes, name=case.name))

    assert_names(str(refusal.value), case)


def assert_names(message: str, case: Refusal) -> None:
    assert case.field in message
    assert case.value in message
    assert case.rule in message


@pytest.mark.parametrize("case", POOLS_ACCEPTED, ids=lambda case: case.why)
def test_the_api_server_accepts_the_pool_and_fills_in_the_same_defaults(server: Server, case: Case) -> None:
    manifest = pool_manifest(case.changes)

    assert RLPool.model_validate(dry_run(server, manifest)).spec == RLPool.model_validate(manifest).spec


@pytest.mark.parametrize("case", POOLS_REFUSED, ids=lambda case: case.why)
def test_the_api_server_refuses_the_pool_and_names_field_value_and_rule(server: Server, case: Refusal) -> None:
    with pytest.raises(Refused) as refusal:
        dry_run(server, pool_manifest(case.changes))

    assert_names(str(refusal.value), case)


@pytest.fixture(scope="module")
def stored_job(server: Server) -> Iterator[str]:
    """The name of a default job that exists."""
    create(server, job_manifest(name="stored"))
    yield "stored"
    server.delete("AgenticRLJob", "default", "stored")


@pytest.mark.parametrize("case", IMMUTABLE, ids=lambda case: case.why)
def test_what_the_ledger_depends_on_cannot_change(server: Server, stored_job: str, case: Refusal) -> None:
    with pytest.raises(Refused) as refusal:
        replace(server, job_manifest(case.changes, name=stored_job))

    assert case.field in str(refusal.value)
    assert "is immutable: the job's ledger depends on it" in str(refusal.value)


@pytest.fixture(scope="module")
def pooled_job(server: Server) -> Iterator[str]:
    """The name of a job of a pool."""
    create(server, job_manifest(POOLED, name="pooled"))
    yield "pooled"
    server.delete("AgenticRLJob", "default", "pooled")


@pytest.mark.parametrize("case", NEVER_TO_BE_LEFT, ids=lambda case: case.why)
def test_a_job_cannot_leave_the_pool_that_counts_its_gpus(server: Server, pooled_job: str, case: Refusal) -> None:
    with pytest.raises(Refused, match=r"spec\.pool: .*pool.name is immutable"):
        replace(server, job_manifest(case.changes, name=pooled_job))


def test_a_job_without_a_pool_cannot_join_one(server: Server, stored_job: str) -> None:
    with pytest.raises(Refused, match=r"spec\.pool: .*pool.name is immutable"):
        replace(server, job_manifest(POOLED, name=stored_job))


def test_a_job_may_change_its_queue(server: Server, pooled_job: str) -> None:
    replaced = replace(server, job_manifest({"pool": {"name": "shared", "queue": "other"}}, name=pooled_job))

    assert replaced["spec"]["pool"]["queue"] == "other"


@pytest.mark.parametrize("case", MUTABLE, ids=lambda case: case.why)
def test_everything_else_can_change(server: Server, stored_job: str, case: Case) -> None:
    replaced = replace(server, job_manifest(case.changes, name=stored_job))

    assert AgenticRLJob.from_cluster(replaced).spec == AgenticRLJob.model_validate(job_manifest(case.changes)).spec


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_the_api_server_accepts_the_example(cluster: Cluster, example: Path) -> None:
    assert "created" in cluster.kubectl("create", "--validate=strict", "--dry-run=server", f"--filename={example}")


def test_the_spec_of_a_revision_cannot_change(server: Server, namespace: str) -> None:
    create(server, a_revision(namespace=namespace).to_dict())

    with pytest.raises(Refused, match=r"spec: .*is immutable: a revision is a record"):
        replace(server, a_revision(namespace=namespace, reason="something else").to_dict())


def test_only_a_users_hold_expires(server: Server) -> None:
    moment = "2026-01-01T00:00:00Z"
    manifest = a_revision(origin=Origin.USER, expires_at=moment).to_dict()
    dry_run(server, manifest)

    manifest["spec"]["origin"] = "Operator"
    with pytest.raises(Refused, match=r"spec\.expiresAt: .*expiresAt is for origin User only, not Operator"):
        dry_run(server, manifest)


def test_a_revision_comes_back_as_it_was_recorded(server: Server, namespace: str) -> None:
    revision = a_revision(namespace=namespace, inputs={"rates.sampler": "1.5"})
    create(server, revision.to_dict())

    stored = server.get("AllocationRevision", namespace, revision.metadata.name)

    assert stored is not None
    assert AllocationRevision.from_cluster(stored).spec == revision.spec


def test_kubectl_explain_explains(cluster: Cluster) -> None:
    explained = cluster.kubectl("explain", "arj.spec.scaling")

    assert "How the operator moves capacity between the stages." in explained
    assert "Observe recommends and changes nothing" in explained
    assert "minGainPercent\t<integer>" in explained


def table(text: str) -> list[str]:
    """Cells of the first row by column, from kubectl's own aligned table."""
    heads, row = text.splitlines()[:2]
    starts = [index for index in range(len(heads)) if heads[index] != " " and (index == 0 or heads[index - 1] == " ")]
    return [f"{heads[a:b].strip()}={row[a:b].strip()}" for a, b in zip(starts, [*starts[1:], None], strict=True)]


def test_kubectl_get_shows_how_a_job_is_doing(cluster: Cluster, server: Server, namespace: str) -> None:
    create(server, job_manifest(namespace=namespace))
    status = {
        "phase": "Running",
        "throughput": "2.4",
        "activeRevision": "calculator-2",
        "bottleneck": {"stage": "environment", "evidence": "busy 96 %"},
        "training": {"step": 12, "reward": "0.41"},
        "gpus": {"budget": "8", "used": "7.5"},
        "lastDecisions": [
            {"time": "2026-01-01T00:00:00Z", "action": "Hold", "kind": "DeadBand", "reason": "balanced within 5 %"}
        ],
    }
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "arj", "calculator", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)

    shown = table(cluster.kubectl("get", "arj", "-n", namespace, "-o", "wide"))

    assert shown[:-1] == [
        "NAME=calculator",
        "PHASE=Running",
        "STEP=12",
        "REWARD=0.41",
        "THROUGHPUT=2.4",
        "BOTTLENECK=environment",
        "GPUS=7.5",
        "REVISION=calculator-2",
        "REASON=balanced within 5 %",
    ]


def test_kubectl_get_shows_what_a_revision_was_worth(cluster: Cluster, server: Server, namespace: str) -> None:
    revision = a_revision(2, namespace=namespace, reason="the environment holds the pipeline back")
    create(server, revision.to_dict())
    status = {
        "phase": "Judged",
        "verdict": "Kept",
        "measured": {"throughputBefore": "1.2", "throughputAfter": "2.4"},
    }
    patch = json.dumps({"status": status})
    cluster.kubectl(
        "patch", "arev", "calculator-2", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )

    shown = table(cluster.kubectl("get", "arev", "-n", namespace))

    assert shown[:-1] == [
        "NAME=calculator-2",
        "NUMBER=2",
        "PHASE=Judged",
        "VERDICT=Kept",
        "REASON=the environment holds the pipeline back",
        "BEFORE=1.2",
        "AFTER=2.4",
    ]


def test_kubectl_get_shows_who_uses_how_much_of_a_pool(cluster: Cluster, server: Server) -> None:
    create(server, pool_manifest(name="shown"))
    patch = json.dumps({"status": {"used": "7.5", "jobs": 3, "waiting": 1}})
    cluster.kubectl("patch", "rlp", "shown", "--subresource=status", "--type=merge", "-p", patch)

    shown = table(cluster.kubectl("get", "rlp", "shown"))
    server.delete("RLPool", None, "shown")

    assert shown[:-1] == ["NAME=shown", "GPUS=8", "USED=7.5", "JOBS=3", "WAITING=1"]
