"""Every example is a manifest that the types accept."""

from pathlib import Path

import pytest
import yaml

from steelyard.api import AgenticRLJob
from steelyard.api.names import JOB_KIND

EXAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_types_accept_the_example(file: Path) -> None:
    manifests = yaml.safe_load_all(file.read_text())

    jobs = [AgenticRLJob.model_validate(manifest) for manifest in manifests if manifest["kind"] == JOB_KIND]

    assert jobs
