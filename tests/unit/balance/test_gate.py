"""Vetoing gates, each with its reason; bounding gates, decided before the allocator runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, RevisionPhase, Stage
from steelyard.balance.bounds import repaired, stage_bounds
from steelyard.balance.gate import Case, sure_gain, veto
from steelyard.balance.model import Estimate, Model
from steelyard.balance.propose import Candidate
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, a_view
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_model import a_model

WIDE = START.replace(Stage.ENVIRONMENT, {"default": 4})
MOVED = WIDE.replace(Stage.SAMPLER, {"whole": 1}).replace(Stage.REWARD_SERVER, {"whole": 2})


def time(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def a_trial(
    number: int, verdict: str | None, at: float, before: Allocation = WIDE, after: Allocation = MOVED, **status: Any
) -> AllocationRevision:
    """A judged move of the balance itself."""
    revision = a_revision(
        number,
        after,
        before=before,
        phase=RevisionPhase.SUPERSEDED,
        predicted={"gainPercent": 50, "costSeconds": 20},
        status={"verdict": verdict, "judged_time": time(at), **status},
    )
    return revision.model_copy(
        update={
            "metadata": revision.metadata.model_copy(update={"creation_timestamp": datetime.fromtimestamp(at, UTC)})
        }
    )


def a_case(
    model: Model | None = None,
    job: AgenticRLJob | None = None,
    revisions: Sequence[AllocationRevision] = (),
    before: Allocation = WIDE,
    after: Allocation = MOVED,
    step: int | None = 10,
) -> Case:
    model, job = model or a_model(), job or demo_job()
    saved = before.gpus(job.spec.gpu_prices) - after.gpus(job.spec.gpu_prices)
    candidate = Candidate(before, after, model.promise(before), model.promise(after), saved)
    return Case(candidate, model, job.spec, revisions, candidate.old.throughput, step, NOW)


def unsure(error: float, stage: Stage = Stage.SAMPLER) -> Model:
    """The samplers' capacity is known to a factor only."""
    model = a_model()
    rates = {**model.capacities.rates, stage: {"whole": Estimate(400 if stage is Stage.SAMPLER else 4, error)}}
    return replace(model, capacities=replace(model.capacities, rates=rates, latency={}))


def test_a_move_that_surely_gains_and_pays_back_may_be_made() -> None:
    assert veto(a_case()) is None


CASES: dict[str, tuple[Case, str, str]] = {
    "a gain below minGainPercent is inside the dead band": (
        a_case(after=WIDE.replace(Stage.ENVIRONMENT, {"default": 5})),
        "DeadBand",
        "less than minGainPercent 5",
    ),
    "a gain that only the mean promises is too uncertain": (
        a_case(model=unsure(1.5)),
        "Uncertain",
        "with 90 % confidence it is only above",
    ),
    "a job about to end earns nothing back": (
        a_case(step=1999),
        "Payback",
        "no change because the move costs 20 s of throughput and would earn only",
    ),
    "what was just rolled back is barred": (
        a_case(revisions=[a_trial(2, "RolledBack", NOW - 100)]),
        "Barred",
        "barred for 500 s more after 1 failure",
    ),
    "each further failure bars twice as long": (
        a_case(
            revisions=[
                a_trial(2, "RolledBack", NOW - 5000),
                a_trial(3, "Kept", NOW - 3000, after=WIDE),
                a_trial(4, "RolledBack", NOW - 900),
            ]
        ),
        "Barred",
        "barred for 300 s more after 2 failures",
    ),
    "two failures in a row hold the last good allocation": (
        a_case(
            revisions=[
                a_trial(2, "RolledBack", NOW - 300, after=WIDE.replace(Stage.SAMPLER, {"whole": 3})),
                a_trial(4, "RolledBack", NOW - 200, after=WIDE.replace(Stage.SAMPLER, {"slice": 3})),
            ]
        ),
        "LosingStreak",
        "the last 2 moves were all rolled back; the last good allocation is held for 400 s more",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_veto_says_why(case: str) -> None:
    given, kind, says = CASES[case]
    objection = veto(given)
    assert objection is not None
    assert objection.kind == kind
    assert says in objection.reason


def test_a_bar_ends() -> None:
    assert veto(a_case(revisions=[a_trial(2, "RolledBack", NOW - 601)])) is None


def test_transition_cost_is_learned_from_moves_of_the_same_kind() -> None:
    taught = a_trial(2, "Kept", NOW - 9000, measured={"transitionCostSeconds": "70"})
    other = a_trial(3, "Kept", NOW - 9000, before=START, after=WIDE, measured={"transitionCostSeconds": "1"})
    assert a_case().cost.seconds == 15 + 5 + 0
    assert a_case(revisions=[taught, other]).cost.seconds == pytest.approx(70)


def test_efficiency_judges_by_gpus_saved() -> None:
    saving = START.replace(Stage.SAMPLER, {"whole": 1})
    case = a_case(before=START, after=saving, job=demo_job({"scaling.objective": "Efficiency"}))
    assert case.candidate.gpus_saved == Fraction(1)
    assert veto(case) is None
    throughput = a_case(before=START, after=saving)
    assert (objection := veto(throughput)) is not None
    assert objection.kind == "DeadBand"


@pytest.mark.parametrize(
    ("measured", "error", "gains"),
    [(1.0, 0.02, True), (1.5, 0.02, False), (1.5, 0.5, True)],
    ids=["as the model says", "clearly more than the model says", "more, but measured badly"],
)
def test_a_move_must_beat_what_is_measured_and_not_only_the_model(measured: float, error: float, gains: bool) -> None:
    """The model promises 45 % more than the 4 trajectories/s that it gives the present allocation."""
    case = a_case()
    case = replace(case, throughput=measured * case.candidate.old.throughput, throughput_error=error)
    objection = veto(case)
    assert (objection is None) is gains
    assert objection is None or objection.kind == "Uncertain"


def test_errors_that_hit_old_and_new_alike_do_not_count() -> None:
    """The judge binds before and after: however badly its speed is known, twice the judges do twice the work."""
    assert sure_gain(unsure(0.1, Stage.REWARD_SERVER), WIDE, MOVED) == pytest.approx(1.0, abs=0.3)


MANY = {"min": 1, "max": 9}
BOUNDS: dict[str, tuple[dict[str, Any], dict[Stage, str], list[AllocationRevision], Stage, tuple[int, int]]] = {
    "a stage at most doubles": (
        {"stages.environment.replicas": {"min": 1, "max": 9}},
        {},
        [],
        Stage.ENVIRONMENT,
        (2, 8),
    ),
    "its maximum still holds": ({}, {}, [], Stage.ENVIRONMENT, (2, 4)),
    "a stage at most halves": ({"stages.sampler.replicas": MANY}, {}, [], Stage.SAMPLER, (1, 4)),
    "an autoscaler's stage stays": ({}, {Stage.SAMPLER: "an HPA owns it"}, [], Stage.SAMPLER, (2, 2)),
    "a moved stage rests": ({}, {}, [a_trial(2, "Kept", NOW - 5, START, WIDE)], Stage.ENVIRONMENT, (4, 4)),
    "the others do not": ({}, {}, [a_trial(2, "Kept", NOW - 5, START, WIDE)], Stage.SAMPLER, (1, 3)),
    "rest ends": ({}, {}, [a_trial(2, "Kept", NOW - 11, START, WIDE)], Stage.ENVIRONMENT, (2, 4)),
    "a move that proved nothing rests twice": (
        {},
        {},
        [a_trial(2, "Inconclusive", NOW - 15, START, WIDE)],
        Stage.ENVIRONMENT,
        (4, 4),
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_bounds_of_a_stage(case: str) -> None:
    changes, held, revisions, stage, want = BOUNDS[case]
    seen = a_view(demo_job(changes), tuple(revisions), held=held)
    bounds = stage_bounds(seen, WIDE, NOW)[stage]
    assert (bounds.low, bounds.high) == want


def test_a_profile_that_was_rolled_back_is_not_tried_again_for_now() -> None:
    slices = WIDE.replace(Stage.REWARD_SERVER, {"slice": 2})
    seen = a_view(revisions=(a_trial(2, "RolledBack", NOW - 100, WIDE, slices),))
    assert stage_bounds(seen, WIDE, NOW)[Stage.REWARD_SERVER].barred == {"slice"}
    assert stage_bounds(seen, WIDE, NOW + 600)[Stage.REWARD_SERVER].barred == set()


REPAIRS: dict[str, tuple[dict[str, Any], Allocation, dict[Stage, dict[str, int]]]] = {
    "a raised minimum": (
        {"stages.environment.replicas": {"min": 3, "max": 4}},
        START,
        {Stage.ENVIRONMENT: {"default": 3}},
    ),
    "a lowered maximum": ({"stages.sampler.replicas": {"min": 1, "max": 1}}, START, {Stage.SAMPLER: {"whole": 1}}),
    "a smaller budget": (
        {"budget.gpus": 3, "stages.sampler.replicas": {"min": 1, "max": 3}},
        START,
        {Stage.SAMPLER: {"whole": 1}},
    ),
    "a removed profile": (
        {"stages.sampler.gpuProfiles": [{"name": "half", "resources": {"nvidia.com/gpu.shared": 1}, "gpus": "500m"}]},
        START,
        {Stage.SAMPLER: {"half": 2}},
    ),
}


@pytest.mark.parametrize("case", REPAIRS)
def test_an_allocation_that_the_spec_no_longer_allows_is_put_right(case: str) -> None:
    changes, allocation, want = REPAIRS[case]
    spec = demo_job(changes).spec
    got = repaired(spec, allocation)
    assert {stage: dict(got[stage]) for stage in want} == want
    assert repaired(spec, got) == got
    assert got.gpus(spec.gpu_prices) <= spec.budget.gpus


def test_an_allowed_allocation_is_left_alone() -> None:
    assert repaired(demo_job().spec, START) == START
