"""`steelyard check -f`: a job against the cluster that it is meant for, before it is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.cli.checking.capacity import least
from tests.builders import a_job, job_manifest
from tests.unit.cli.fake_kubectl import State
from tests.unit.cli.well import a_quota, check, well
from tests.unit.cli.world import steelyard


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    return well(monkeypatch)


def written(tmp_path: Path, changes: Mapping[str, Any]) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_manifest(changes)))
    return str(file)


def test_a_file_is_checked_by_the_types_and_against_the_cluster(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_quota(state)
    code, found = check(
        state, "-f", written(tmp_path, {"code": {"configMap": {"name": "nope"}}}), monkeypatch=monkeypatch
    )
    assert code == 3
    said = {one.code: one.message for one in found if one.level == "failure"}
    assert said["SY2013"] == "spec.code.configMap: there is no ConfigMap nope"
    assert said["SY2012"].startswith("ResourceQuota team leaves 0 nvidia.com/gpu, its minima ask for ")


def test_a_quota_of_memory_is_held_against_what_the_pods_of_a_file_request(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_quota(state, "requests.memory", most="64Gi", used="60Gi")
    worker = {"name": "worker", "resources": {"limits": {"memory": "6Gi"}}}
    file = written(tmp_path, {"stages.environment.template": {"spec": {"containers": [worker]}}})
    code, found = check(state, "-f", file, monkeypatch=monkeypatch)
    assert code == 3
    (said,) = [one.message for one in found if one.code == "SY2012"]
    assert said == "ResourceQuota team leaves 4 GiB of memory, its minima ask for 6 GiB of memory"


def test_a_file_that_breaks_a_rule_names_field_value_and_rule(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, {"budget.gpus": -1})
    code, out, err = steelyard(state, "check", "-f", file, monkeypatch=monkeypatch)
    assert (code, out) == (3, "")
    assert f"SY1110 {file}: spec.budget.gpus: -1" in err


def test_a_file_is_checked_in_its_own_namespace_unless_another_is_named(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job_manifest(namespace="team")))
    for arguments, namespace in (((), "team"), (("-n", "other"), "other")):
        _, found = check(state, "-f", str(tmp_path / "job.yaml"), *arguments, monkeypatch=monkeypatch)
        assert f"namespace {namespace}" in {one.object for one in found}


@pytest.mark.parametrize("content", ["kind: Pod\n", "{", ""])
def test_a_file_without_a_job_is_a_usage_error(
    state: State, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.yaml").write_text(content)
    assert steelyard(state, "check", "-f", str(tmp_path / "x.yaml"), monkeypatch=monkeypatch)[0] == 2


def test_the_smallest_allocation_is_counted_in_the_cheapest_profiles() -> None:
    job = a_job({"stages.sampler.replicas": {"min": 2, "max": 3}})
    assert float(least(job)["nvidia.com/gpu.shared"]) >= 2
