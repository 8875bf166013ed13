"""Every example is a manifest that the types accept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api import AgenticRLJob, RLPool
from steelyard.api.base import Model
from steelyard.api.names import JOB_KIND, POOL_KIND
from steelyard.api.schema import job_crd

EXAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "examples").glob("*.yaml"))

OURS: dict[str, type[Model]] = {JOB_KIND: AgenticRLJob, POOL_KIND: RLPool}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_accept_the_example(file: Path) -> None:
    manifests = list(yaml.safe_load_all(file.read_text()))

    ours = [OURS[manifest["kind"]].model_validate(manifest) for manifest in manifests if manifest["kind"] in OURS]

    assert ours or {manifest["kind"] for manifest in manifests} == {"NetworkPolicy"}


def test_the_full_example_shows_every_field() -> None:
    text = next(file for file in EXAMPLES if file.stem == "full").read_text()
    schema = job_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    assert [field for field in sorted(set(fields(schema))) if f"{field}:" not in text] == []


def test_the_smallest_example_is_about_a_dozen_lines() -> None:
    text = next(file for file in EXAMPLES if file.stem == "minimal").read_text()

    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 14


def fields(schema: Any) -> Iterator[str]:
    """The names of all fields, however deep; not those of a pod template, which are Kubernetes' own."""
    for name, child in schema.get("properties", {}).items():
        yield name
        yield from fields(child)
    for below in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(below, dict):
            yield from fields(below)
