"""A pod template may be anything: the API keeps it as it is, and the API server judges what comes of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import AgenticRLJob, Stage
from steelyard.balance.purse import requests
from steelyard.children import children
from steelyard.cluster.view import slots
from tests.builders import job_manifest
from tests.property.effort import costly
from tests.unit.operator.operating import IMAGES

WORDS = st.sampled_from(["worker", "nats", "tmp", "x", "1", "-1", "500m", ""])
SCALARS = st.none() | st.booleans() | st.integers(-2, 5) | WORDS
KEYS = st.sampled_from(
    ["metadata", "labels", "annotations", "spec", "containers", "initContainers", "volumes", "env", "ports", "name",
     "mountPath", "volumeMounts", "resources", "limits", "requests", "cpu", "memory"]
)  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
TEMPLATES = st.fixed_dictionaries({}, optional={"metadata": ANYTHING, "spec": ANYTHING})


@costly
@given(TEMPLATES)
def test_whatever_it_is_the_job_is_rendered_and_counted(template: dict[str, Any]) -> None:
    job = AgenticRLJob.model_validate(job_manifest({"stages.sampler.template": template}))
    made = children(job, dict.fromkeys(slots(job), 1), 1, IMAGES, monitored=False)
    json.dumps(made)
    assert requests(job.spec.stage(Stage.SAMPLER)).keys() == job.spec.stage(Stage.SAMPLER).profiles.keys()
