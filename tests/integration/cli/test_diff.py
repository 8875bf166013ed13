"""`steelyard diff` against a real API server, and then the change itself."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster
from e2e.kube import Object
from tests.integration.cli.people import Person, item, viewer
from tests.integration.operator.operating import Operated

__all__ = ["viewer"]  # a fixture

pytestmark = pytest.mark.timeout(240, func_only=True)


def written(folder: Path, job: Object) -> str:
    """The job's manifest as a file."""
    metadata = {name: job["metadata"][name] for name in ("name", "namespace")}
    manifest = {"apiVersion": job["apiVersion"], "kind": job["kind"], "metadata": metadata, "spec": job["spec"]}
    (folder / "job.yaml").write_text(json.dumps(manifest))
    return str(folder / "job.yaml")


def test_a_change_is_foretold_and_then_comes_as_foretold(
    cluster: Cluster, operated: Operated, viewer: Person, tmp_path: Path
) -> None:
    operated.start()
    before, job = operated.objects(), deepcopy(operated.job())
    owner = Person(cluster.kubeconfig)
    same = owner.steelyard("diff", "-f", written(tmp_path, job), "--exit-code")
    assert (same.code, same.out.splitlines()[-1]) == (0, "The file changes nothing."), same.err

    job["spec"]["stages"]["environment"]["args"] = {"toolSeconds": "0.5"}
    job["spec"]["scaling"]["fixed"] = {"environment": {"default": 2}}
    file = written(tmp_path, job)
    asked = owner.steelyard("diff", "-f", file, "-o", "json")
    told = item(asked)
    assert {one["path"]: one["after"] for one in told["fields"]} == {
        "spec.stages.environment.args.toolSeconds": "0.5",
        "spec.scaling.fixed.environment.default": 2,
        "spec.scaling.fixed.sampler.whole": None,
    }
    moved = {one["stage"]: (one["before"], one["after"]) for one in told["replicas"] if one["before"] != one["after"]}
    assert moved == {"sampler": (2, 1), "environment": (1, 2)}
    assert {(one["stage"], one["profile"]): one["pods"] for one in told["replicas"]} == {
        ("sampler", "whole"): "keep",
        ("environment", "default"): "restart",
        ("rewardServer", "whole"): "keep",
        ("trainer", "whole"): "keep",
    }
    assert [one["name"] for one in told["objects"]] == ["calculator-config"]
    assert operated.job()["metadata"]["generation"] == job["metadata"]["generation"], "it wrote"
    assert item(viewer.steelyard("diff", "-f", file, "-o", "json"))["replicas"] == told["replicas"]

    operated.server.apply([json.loads(Path(file).read_text())], operated.namespace)
    operated.until("two environments", lambda: _desired(operated, "calculator-environment") == 2)
    operated.until("one sampler", lambda: _desired(operated, "calculator-sampler-whole") == 1)
    after = operated.objects()
    changed = {
        name
        for (kind, name), obj in after.items()
        if kind != "AllocationRevision" and obj["metadata"].get("generation", 0) != _generation(before, kind, name)
    }
    assert changed == {"calculator-environment", "calculator-sampler-whole"}
    assert _template(after, "environment") != _template(before, "environment")
    assert _template(after, "sampler-whole") == _template(before, "sampler-whole")


def test_what_the_api_server_would_refuse_is_told_in_its_words(
    cluster: Cluster, operated: Operated, tmp_path: Path
) -> None:
    operated.create()
    job = deepcopy(operated.job())
    job["spec"]["tasks"] = {"configMap": {"name": "others"}}
    refused = Person(cluster.kubeconfig).steelyard("diff", "-f", written(tmp_path, job))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("SY1007 ")
    assert "spec.tasks: Invalid value" in refused.err
    assert "is immutable: the job's ledger depends on it" in refused.err


def _desired(operated: Operated, name: str) -> int:
    return int(operated.objects()["Deployment", name]["spec"]["replicas"])


def _generation(objects: dict[tuple[str, str], Object], kind: str, name: str) -> int:
    return int(objects[kind, name]["metadata"].get("generation", 0))


def _template(objects: dict[tuple[str, str], Object], workload: str) -> Object:
    return dict(objects["Deployment", f"calculator-{workload}"]["spec"]["template"])
