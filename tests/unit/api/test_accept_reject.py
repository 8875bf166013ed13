"""The Python half of the accept/reject table; tests/integration/test_schema.py is the API server's half."""

import pytest
from pydantic import ValidationError

from steelyard.api import AgenticRLJob, InvalidResource, RLPool, explain
from tests.builders import job_manifest, pool_manifest
from tests.unit.api.cases import ACCEPTED, POOLS_ACCEPTED, POOLS_REFUSED, REFUSED, Case, Refusal


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.why)
def test_the_types_accept(case: Case) -> None:
    AgenticRLJob.model_validate(job_manifest(case.changes, name=case.name))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.why)
def test_the_types_refuse_and_name_field_value_and_rule(case: Refusal) -> None:
    with pytest.raises(ValidationError) as refusal:
        AgenticRLJob.model_validate(job_manifest(case.changes, name=case.name))

    assert_names(explain(refusal.value), case)


@pytest.mark.parametrize("case", POOLS_ACCEPTED, ids=lambda case: case.why)
def test_the_types_accept_the_pool(case: Case) -> None:
    RLPool.model_validate(pool_manifest(case.changes))


@pytest.mark.parametrize("case", POOLS_REFUSED, ids=lambda case: case.why)
def test_the_types_refuse_the_pool_and_name_field_value_and_rule(case: Refusal) -> None:
    with pytest.raises(ValidationError) as refusal:
        RLPool.model_validate(pool_manifest(case.changes))

    assert_names(explain(refusal.value), case)


def assert_names(message: str, case: Refusal) -> None:
    assert case.field in message
    assert case.value in message
    assert case.rule in message


def test_a_job_from_the_cluster_that_breaks_rules_is_explained_in_full() -> None:
    manifest = job_manifest({"stages.sampler.replicas": {"min": 5, "max": 2}, "model": {}})

    with pytest.raises(InvalidResource) as refusal:
        AgenticRLJob.from_cluster(manifest)

    assert str(refusal.value) == (
        "spec.model: exactly one of path, claim must be set, not []; "
        "spec.stages.sampler.replicas.min: min 5 must not exceed max 2"
    )


def test_fields_of_a_newer_crd_do_not_stop_an_older_operator() -> None:
    manifest = job_manifest({"scaling.fromTheFuture": 1, "stages.sampler.alsoNew": {}})

    assert AgenticRLJob.from_cluster(manifest).spec.scaling.mode == "Dynamic"
