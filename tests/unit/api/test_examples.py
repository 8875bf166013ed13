"""Every example is a manifest that the types accept."""

from pathlib import Path

import pytest
import yaml

from steelyard.api import AgenticRLJob, RLPool
from steelyard.api.base import Model
from steelyard.api.names import JOB_KIND, POOL_KIND

EXAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "examples").glob("*.yaml"))

OURS: dict[str, type[Model]] = {JOB_KIND: AgenticRLJob, POOL_KIND: RLPool}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_accept_the_example(file: Path) -> None:
    manifests = yaml.safe_load_all(file.read_text())

    ours = [OURS[manifest["kind"]].model_validate(manifest) for manifest in manifests if manifest["kind"] in OURS]

    assert ours
