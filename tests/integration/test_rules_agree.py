"""The types and the API server give the same answer to manifests that nobody thought of."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from steelyard.api import AgenticRLJob, Stage, explain
from tests.builders import SLICE, WHOLE, job_manifest
from tests.integration.server import Refused, Server

FEW = st.integers(0, 4)
PROFILES: list[dict[str, Any]] = [
    WHOLE,
    SLICE,
    {"name": "pair", "resources": {"nvidia.com/gpu": 2}, "gpus": "2000m"},
    {"name": "odd", "resources": {"nvidia.com/gpu": "1500m", "cpu": "250m"}, "gpus": "1.5"},
    {"name": "part", "resources": {"example.com/slice": "2"}, "gpus": "0.333", "memoryPercent": 33},
]


@st.composite
def stages(draw: st.DrawFn, stage: Stage) -> dict[str, Any]:
    """Changes to one stage around the borders of its rules."""
    path = f"stages.{stage.field}"
    top = 1 if stage is Stage.TRAINER else 4
    changes: dict[str, Any] = {f"{path}.replicas": {"min": draw(st.integers(1, top)), "max": draw(st.integers(1, top))}}
    if draw(st.booleans()):
        changes[f"{path}.replicas.initial"] = draw(st.integers(1, 4))
    changes[f"{path}.gpuProfiles"] = draw(st.lists(st.sampled_from(PROFILES), max_size=3))
    return changes


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Changes to the default job."""
    changes = {"budget.gpus": draw(st.sampled_from([0, 1, "2500m", "3.999", 4, "6", 12]))}
    for stage in draw(st.sets(st.sampled_from(list(Stage)), max_size=4)):
        changes |= draw(stages(stage))
    if draw(st.booleans()):
        names = st.sampled_from(["default", "whole", "slice", "pair", "odd", "part"])
        fixed = st.dictionaries(st.sampled_from([s.field for s in Stage]), st.dictionaries(names, FEW, max_size=3))
        changes["scaling"] = {"mode": draw(st.sampled_from(["Fixed", "Dynamic"])), "fixed": draw(fixed)}
    if draw(st.booleans()):
        changes["algorithm"] = {
            "maxStaleness": draw(st.integers(0, 3)),
            "groupSize": draw(st.integers(2, 5)),
            "promptsPerStep": draw(st.integers(1, 4)),
        }
        changes["buffer"] = {"maxTrajectories": draw(st.integers(1, 90)), "maxExperience": draw(st.integers(1, 170))}
    return changes


def refusal_of_types(manifest: dict[str, Any]) -> str | None:
    try:
        AgenticRLJob.model_validate(manifest)
    except ValidationError as error:
        return explain(error)
    return None


def refusal_of_server(server: Server, manifest: dict[str, Any]) -> str | None:
    path = "/apis/steelyard.dev/v1alpha1/namespaces/default/agenticrljobs"
    try:
        server.request("POST", path, manifest, params={"dryRun": "All", "fieldValidation": "Strict"})
    except Refused as refusal:
        return str(refusal)
    return None


def sorted_lists(text: str) -> str:
    """The keys of a map have no order in CEL."""
    return re.sub(r"\[(\"[^]]*\")\]", lambda found: ", ".join(sorted(found[1].split(", "))), text)


@pytest.mark.timeout(300, func_only=True)
@settings(
    max_examples=200,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=specs())
def test_types_and_api_server_refuse_the_same_jobs_in_the_same_words(server: Server, changes: dict[str, Any]) -> None:
    manifest = job_manifest(changes)

    ours, theirs = refusal_of_types(manifest), refusal_of_server(server, manifest)

    assert (ours is None) == (theirs is None), f"types: {ours}\nserver: {theirs}"
    for line in (ours or "").split("; spec."):
        assert sorted_lists(line.split(": ", 1)[-1]) in sorted_lists(theirs or "")
