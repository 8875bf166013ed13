"""What Argo CD says of our resources, and does to them: its own test files, and every situation of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gitops.customizations import ARGOCD, generated
from steelyard.api import AllocationRevisionStatus, JobStatus, PoolStatus
from steelyard.api.base import Model
from steelyard.status import status
from tests.builders import job_manifest
from tests.unit.gitops.argocd import KINDS, health, objects, run
from tests.unit.operator.situations import SITUATIONS
from tests.unit.operator.ticks import a_tick

STATUS: dict[str, type[Model]] = {
    "AgenticRLJob": JobStatus,
    "AllocationRevision": AllocationRevisionStatus,
    "RLPool": PoolStatus,
}
CONDITIONS = {
    "AgenticRLJob": [condition.type for condition in status(a_tick()).conditions],
    "AllocationRevision": [],
    "RLPool": ["Ready", "Stalled"],
}
HEALTH = [(kind, test) for kind in STATUS for test in objects(KINDS / kind / "health_test.yaml")["tests"]]
ACTIONS = KINDS / "AgenticRLJob" / "actions"
OF_PHASE = {
    "Starting": "Progressing",
    "Stopping": "Progressing",
    "Running": "Healthy",
    "Waiting": "Suspended",
    "Suspended": "Suspended",
    "Degraded": "Degraded",
    "Stalled": "Degraded",
    "Failed": "Degraded",
    "Complete": "Healthy",
}
TESTDATA = sorted(KINDS.glob("*/testdata/*.yaml"))


@pytest.mark.parametrize(("kind", "test"), HEALTH, ids=[f"{kind} {test['inputPath']}" for kind, test in HEALTH])
def test_the_health_of_each_example(kind: str, test: dict[str, Any]) -> None:
    assert health(kind, objects(KINDS / kind / test["inputPath"])) == test["healthStatus"]


def test_every_example_has_its_test() -> None:
    assert {KINDS / kind / test["inputPath"] for kind, test in HEALTH} == set(TESTDATA)


@pytest.mark.parametrize("file", TESTDATA, ids=lambda file: f"{file.parents[1].name} {file.stem}")
def test_each_example_has_a_status_that_the_operator_writes(file: Path) -> None:
    found = objects(file)
    STATUS[found["kind"]].model_validate(found.get("status") or {})

    told = [one["type"] for one in (found.get("status") or {}).get("conditions", [])]
    assert told in ([], CONDITIONS[found["kind"]])


@pytest.mark.parametrize("case", SITUATIONS)
def test_the_health_of_a_job_in_each_situation(case: str) -> None:
    tick, _, phase = SITUATIONS[case]
    job = job_manifest()
    job["metadata"]["generation"] = tick.job.metadata.generation

    assert health("AgenticRLJob", {**job, "status": status(tick).to_dict()})["status"] == OF_PHASE[phase]


def test_an_action_is_offered_only_where_git_does_not_say_the_opposite() -> None:
    script = (ACTIONS / "discovery.lua").read_text()
    for test in objects(ACTIONS / "action_test.yaml")["discoveryTests"]:
        found = run(script, objects(ACTIONS / test["inputPath"]))
        assert found == {want.pop("name"): want for want in test["result"]}, test["inputPath"]


def test_what_the_actions_do() -> None:
    for test in objects(ACTIONS / "action_test.yaml")["actionTests"]:
        script = (ACTIONS / test["action"] / "action.lua").read_text()
        assert (
            run(script, objects(ACTIONS / test["inputPath"]))["spec"]
            == objects(ACTIONS / test["expectedOutputPath"])["spec"]
        )


@pytest.mark.parametrize("name", generated())
def test_the_data_for_argocd_cm_are_the_scripts(name: str) -> None:
    assert (ARGOCD.parents[1] / name).read_text() == generated()[name], "run `make generate`"


def test_argo_cd_reads_the_scripts_from_the_data_as_they_are() -> None:
    data = objects(ARGOCD / "argocd-cm.yaml")["data"]
    assert data == objects(ARGOCD / "values.yaml")["configs"]["cm"]
    actions = yaml.safe_load(data.pop("resource.customizations.actions.steelyard.dev_AgenticRLJob"))
    assert data == {
        f"resource.customizations.health.steelyard.dev_{kind}": (KINDS / kind / "health.lua").read_text()
        for kind in STATUS
    }
    assert actions["discovery.lua"] == (ACTIONS / "discovery.lua").read_text()
    assert {one["name"]: one["action.lua"] for one in actions["definitions"]} == {
        name: (ACTIONS / name / "action.lua").read_text() for name in ("suspend", "resume")
    }


def test_the_sample_asks_for_nothing_to_be_overlooked() -> None:
    """An Application that needs `ignoreDifferences` has an operator that writes to what Git owns."""
    for application in yaml.safe_load_all((ARGOCD / "application.yaml").read_text()):
        assert (application["apiVersion"], application["kind"]) == ("argoproj.io/v1alpha1", "Application")
        spec = application["spec"]
        assert set(spec) == {"project", "source", "destination", "syncPolicy"}
        assert set(spec["source"]) == {"repoURL", "targetRevision", "path"}
        assert "ServerSideApply=true" in spec["syncPolicy"]["syncOptions"]
        assert application["metadata"]["annotations"] == {"argocd.argoproj.io/compare-options": "ServerSideDiff=true"}
