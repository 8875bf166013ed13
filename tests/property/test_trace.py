"""At every moment of a simulated pipeline an explanation agrees with the decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.balance.trace import Trace, trace
from steelyard.balance.types import Action
from tests.unit.balance.loop import Loop, demo_job

HOLDING_GATES = {"DeadBand", "FixFirst", "LosingStreak", "Barred", "Uncertain", "Payback"}


def traces(changes: dict[str, Any], minutes: int = 12) -> Iterator[Trace]:
    loop = Loop(demo_job(changes))
    for _ in range(minutes * 2):
        loop.run(30)
        yield trace(loop.seen(), loop.rates(), loop.pipeline.now, loop.job)


@pytest.mark.parametrize(
    "changes",
    [{}, {"scaling.mode": "Observe"}, {"scaling.objective": "Efficiency"}, {"scaling.minGainPercent": 60}],
    ids=["the demo", "mode Observe", "Efficiency", "a high threshold"],
)
def test_the_rule_that_an_explanation_blames_is_the_one_that_decided(changes: dict[str, Any]) -> None:
    kinds = set()
    for found in traces(changes):
        decision = found.plan.decision
        kinds.add(decision.kind)
        blamed = next((rule for rule in found.orders if not rule.passed), None)
        if blamed:
            assert (blamed.kind, blamed.reason) == (decision.kind, decision.reason)
        elif decision.action is Action.HOLD and decision.kind in HOLDING_GATES:
            gates = [next(gate for gate in one.gates if not gate.passed) for one in found.tried]
            assert (decision.kind, decision.reason) in [(gate.kind, gate.reason) for gate in gates]
        elif decision.action in (Action.MOVE, Action.RECOMMEND):
            passed = next(one for one in found.tried if one.passed)
            assert found.plan.revision is None or found.plan.revision.spec.allocation.after == passed.candidate.after
    assert len(kinds) >= 2, "the story was too short to test anything"


def test_limits_follow_each_other_and_the_last_is_what_is_tried() -> None:
    for found in traces({}):
        if found.wanted is None:
            continue
        target = found.wanted
        for limit in found.limits:
            assert limit.before == target
            target = limit.after
        assert target in {found.current, *(one.candidate.after for one in found.tried)}
