"""An explanation says what the balance decided, by the rules that decided it, and what would change it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from steelyard.api import Stage
from steelyard.balance.trace import RULES, Trace, trace
from steelyard.balance.types import Action, MetricsProblem, MetricsUnavailable, Rates
from steelyard.balance.why_not import Answer, why_not
from tests.unit.balance.loop import Loop, demo_job


def explained(loop: Loop, rates: Rates | None = None) -> Trace:
    return trace(loop.seen(), rates or loop.rates(), loop.pipeline.now, loop.job)


def test_every_input_says_its_query_and_how_old_it_is() -> None:
    loop = Loop(demo_job()).run(120)
    found = {(one.stage, one.meaning): one for one in explained(loop).inputs}
    tokens = found[Stage.SAMPLER, "tokens generated"]
    assert tokens.query.startswith("vllm:generation_tokens_total[")
    assert tokens.value
    assert tokens.age_seconds is not None
    assert tokens.age_seconds <= 15
    assert (tokens.pods, tokens.of) == (2, 2)


def test_what_was_not_measured_is_none_and_not_zero() -> None:
    loop = Loop(demo_job()).run(120)
    found = explained(loop, Rates(60.0))
    assert {one.value for one in found.inputs} == {None}
    assert {one.age_seconds for one in found.inputs} == {None}
    assert {one.pods for one in found.inputs} == {0}


def settled(changes: dict[str, Any] | None = None) -> Loop:
    """The demo, its moves made and judged, or what it comes to with `changes`; for looking only."""
    return Loop(demo_job(changes)).run(240) if changes else _settled_demo()


@cache
def _settled_demo() -> Loop:
    return Loop(demo_job()).run(540)


WOULD_CHANGE: dict[str, tuple[dict[str, Any], str]] = {
    "a stage at its maximum": (
        {"stages.environment.replicas": {"min": 1, "max": 2}},
        "Replicas: spec.stages.environment.replicas.max above 2, for up to",
    ),
    "one GPU more": ({}, "Budget: 1 more in spec.budget.gpus, for up to"),
    "another mode": ({"scaling.mode": "Observe"}, "Observe: spec.scaling.mode: Dynamic makes the recommended move"),
    "a lower threshold": ({"scaling.minGainPercent": 95}, "DeadBand: spec.scaling.minGainPercent at most "),
}


@pytest.mark.parametrize("case", WOULD_CHANGE)
def test_what_would_change_a_decision(case: str) -> None:
    changes, want = WOULD_CHANGE[case]
    remedies = explained(settled(changes)).remedies
    assert any(remedy.startswith(want) for remedy in remedies), remedies


def test_a_remedy_that_names_a_figure_would_have_been_enough() -> None:
    """minGainPercent lowered to what the explanation says lets the move pass this gate."""
    loop = settled({"scaling.minGainPercent": 95})
    gain = min(one.candidate.gain for one in explained(loop).tried)
    lowered = loop.job.model_copy(
        update={
            "spec": loop.job.spec.model_copy(
                update={"scaling": loop.job.spec.scaling.model_copy(update={"min_gain_percent": int(gain * 100)})}
            )
        }
    )
    again = trace(replace(loop.seen(), job=lowered), loop.rates(), loop.pipeline.now, lowered)
    assert all(gate.passed for one in again.tried for gate in one.gates if gate.kind == "DeadBand")


def test_a_pool_that_grants_less_is_the_first_limit() -> None:
    loop = settled()
    lent = loop.job.within(Fraction(3))
    found = trace(replace(loop.seen(), job=lent), loop.rates(), loop.pipeline.now, loop.job)
    assert found.limits[0].kind == "Pool"
    assert found.limits[0].binds
    assert "the pool grants 3 GPUs" in found.limits[0].reason


@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        (Rates(60.0, unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, "gone")), "MetricsUnavailable"),
        (Rates(60.0), "MetricsIncomplete"),
    ],
)
def test_without_metrics_the_missing_ones_are_to_blame(rates: Rates, kind: str) -> None:
    loop = settled()
    found = explained(loop, rates)
    assert next(rule.kind for rule in found.orders if not rule.passed) == kind
    assert found.remedies == (f"{kind}: {RULES[kind][1]}",)


def asked(loop: Loop, stage: Stage, wanted: int) -> Answer:
    return why_not(loop.seen(), loop.rates(), loop.pipeline.now, stage, wanted)


WHY_NOT: dict[str, tuple[Stage, int, str, str]] = {
    "more than the spec allows": (Stage.ENVIRONMENT, 9, "Replicas", "spec.stages.environment.replicas.max at least 9"),
    "fewer than the spec allows": (Stage.SAMPLER, 0, "Replicas", "spec.stages.sampler.replicas.min at most 0"),
    "more than double": (Stage.SAMPLER, 3, "Growth", "several moves, first to 2"),
    "worse than what is there": (Stage.SAMPLER, 2, "Best", "another bottleneck"),
}


@pytest.mark.parametrize("case", WHY_NOT)
def test_the_first_rule_that_blocks_a_number_and_the_threshold_to_cross(case: str) -> None:
    stage, wanted, kind, remedy = WHY_NOT[case]
    answer = asked(settled(), stage, wanted)
    assert answer.objection
    assert (answer.objection.kind, answer.objection.remedy) == (kind, remedy)


def test_more_gpus_than_the_budget_has_are_named() -> None:
    answer = asked(settled(), Stage.SAMPLER, 3)
    budget = next(rule for rule in answer.rules if rule.kind == "Budget")
    assert not budget.passed
    assert "GPUs of a budget of 4" in budget.reason


def test_nothing_blocks_the_move_that_is_being_made() -> None:
    loop = Loop(demo_job())
    while explained(loop).plan.decision.action is not Action.MOVE if loop.revisions else True:
        loop.run(5)
    assert asked(loop, Stage.ENVIRONMENT, 2).objection is None
