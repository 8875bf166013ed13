"""Quantities, stages and allocations: the small values that everything else is made of."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from pydantic import ValidationError

from steelyard.api import Allocation, AllocationRevision, Origin, Stage, format_quantity, parse_quantity
from tests.builders import SLICE, WHOLE, a_job, a_revision, an_allocation


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        (2, Fraction(2)),
        ("2", Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("10Gi", Fraction(10 * 1024**3)),
        ("1k", Fraction(1000)),
    ],
)
def test_a_quantity_is_read_exactly(written: int | str, exact: Fraction) -> None:
    assert parse_quantity(written) == exact


@pytest.mark.parametrize("written", ["", "many", "-1", "1.", "1 Gi", "1e3", "½", 0.5, True, None, "1\n"])
def test_what_is_no_quantity_is_refused_by_name(written: object) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(written)  # type: ignore[arg-type]


@pytest.mark.parametrize(("gpus", "written"), [(Fraction(4), "4"), (Fraction(1, 2), "500m"), (Fraction(7, 2), "3500m")])
def test_gpus_are_written_as_the_shortest_quantity(gpus: Fraction, written: str) -> None:
    assert format_quantity(gpus) == written
    assert parse_quantity(written) == gpus


def test_gpus_finer_than_a_thousandth_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="finer than a thousandth"):
        format_quantity(Fraction(1, 3))


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        (Stage.SAMPLER, "sampler"),
        (Stage.ENVIRONMENT, "environment"),
        (Stage.REWARD_SERVER, "rewardServer"),
        (Stage.TRAINER, "trainer"),
    ],
)
def test_a_stage_knows_its_key_in_resources(stage: Stage, field: str) -> None:
    assert stage.field == field
    assert Stage.of_field(field) is stage


def test_an_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"'reward' is no stage; stages are sampler, environment, rewardServer, trainer"
    ):
        Stage.of_field("reward")


def test_allocations_that_mean_the_same_are_equal() -> None:
    written = Allocation.model_validate({"sampler": {"slice": 0, "whole": 2}, "rewardServer": {}})
    computed = Allocation.of({Stage.SAMPLER: {"whole": 2}})

    assert written == computed
    assert hash(written) == hash(computed)
    assert written != Allocation.of({Stage.SAMPLER: {"slice": 2}})


def test_an_allocation_counts_its_gpus_exactly() -> None:
    allocation = an_allocation({Stage.SAMPLER: {"whole": 2, "slice": 3}})

    assert allocation.replicas(Stage.SAMPLER) == 5
    assert allocation.gpus(a_job().spec.gpu_prices) == Fraction(11, 2)


def test_the_difference_of_two_allocations_says_what_to_add_and_what_to_remove() -> None:
    before = an_allocation({Stage.SAMPLER: {"whole": 4}})
    after = before.replace(Stage.SAMPLER, {"whole": 3, "slice": 1}).replace(Stage.ENVIRONMENT, {"default": 4})

    assert before.diff(after) == {
        (Stage.ENVIRONMENT, "default"): 3,
        (Stage.SAMPLER, "slice"): 1,
        (Stage.SAMPLER, "whole"): -1,
    }
    assert before.diff(before) == {}
    assert (
        str(after) == "sampler 1 slice, sampler 3 whole, environment 4 default, rewardServer 1 whole, trainer 1 whole"
    )


@pytest.mark.parametrize(
    ("why", "changes", "start"),
    [
        ("the minimum of each first profile", {}, {Stage.SAMPLER: {"whole": 1}}),
        ("initial replicas", {"stages.sampler.replicas.initial": 3}, {Stage.SAMPLER: {"whole": 3}}),
        ("the user's order of profiles", {"stages.sampler.gpuProfiles": [SLICE, WHOLE]}, {Stage.SAMPLER: {"slice": 1}}),
        (
            "fixed, and initial replicas where it is silent",
            {
                "scaling": {"mode": "Fixed", "fixed": {"sampler": {"whole": 1, "slice": 2}}},
                "stages.environment.replicas.initial": 5,
            },
            {Stage.SAMPLER: {"whole": 1, "slice": 2}, Stage.ENVIRONMENT: {"default": 5}},
        ),
        (
            "not fixed, in another mode",
            {"scaling": {"mode": "Dynamic", "fixed": {"sampler": {"whole": 2}}}},
            {Stage.SAMPLER: {"whole": 1}},
        ),
    ],
)
def test_a_job_starts_with(why: str, changes: dict[str, object], start: dict[Stage, dict[str, int]]) -> None:
    least = {stage: {"whole": 1} for stage in (Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)}

    expected = Allocation.of({**least, Stage.ENVIRONMENT: {"default": 1}, **start})

    assert a_job(changes).spec.initial_allocation == expected


def test_a_resource_survives_the_way_to_the_cluster_and_back() -> None:
    revision = a_revision(3, expires_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), origin=Origin.USER)

    written = revision.to_dict()

    assert written["spec"]["expiresAt"] == "2026-01-02T03:04:05Z"
    assert written["metadata"] == {
        "name": "calculator-3",
        "namespace": "default",
        "labels": {"steelyard.dev/job": "calculator"},
    }
    assert AllocationRevision.from_cluster(written) == revision


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_job().spec.suspend = True  # type: ignore[misc]
