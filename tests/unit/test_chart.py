"""What Artifact Hub and the chart's own page say of the chart is what it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.helm import CHART, ROOT
from steelyard.settings import Settings

ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text())
SAID = {key.partition("/")[2]: yaml.safe_load(text) for key, text in ABOUT["annotations"].items()}
CRDS = [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "crds").glob("*.yaml"))]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
FILES = f"{ABOUT['home']}/blob/main/"
RAW = "https://raw.githubusercontent.com/steelyard/steelyard/main/"
"""Links of a page that is read elsewhere lead to one of these."""


def example(name: str) -> Any:
    return yaml.safe_load((ROOT / "manifests" / "examples" / f"{name}.yaml").read_text())


def test_the_resources_are_these() -> None:
    assert [(one["kind"], one["version"], one["name"]) for one in SAID["crds"]] == [
        (crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"], crd["metadata"]["name"]) for crd in CRDS
    ]


def test_the_examples_are_those_that_are_tested() -> None:
    assert SAID["crdsExamples"] == [example("minimal"), example("pool")]


def test_the_images_are_those_that_run() -> None:
    workers = {reference for field, reference in Settings() if field.startswith("image_")}
    operator = f"{VALUES['image']['registry']}/operator:{ABOUT['appVersion']}"

    listed = {one["image"] for one in SAID["images"]}

    assert listed == {*workers, operator, VALUES["prometheus"]["bundled"]["image"]}


def test_the_changes_are_of_kinds_that_are_known() -> None:
    assert {one["kind"] for one in SAID["changes"]} <= {
        "added",
        "changed",
        "deprecated",
        "removed",
        "fixed",
        "security",
    }
    assert all(one["description"] for one in SAID["changes"])


@pytest.mark.parametrize("page", ["Chart.yaml", "README.md"])
def test_links_lead_to_what_there_is(page: str) -> None:
    """Artifact Hub shows them outside of the repository, where relative ones lead nowhere."""
    text = (CHART / page).read_text()

    linked = [Path(url.partition("#")[0]) for url in re.findall(rf"(?:{re.escape(FILES)}|{RAW})([^)\s]+)", text)]

    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []
    assert re.findall(r"\]\((?!https://)", text) == []
