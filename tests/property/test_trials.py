"""Revisions that users write by hand: tried, held, refused, undone, against the simulated pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api import Allocation, AllocationRevision, Origin, RevisionPhase, Stage, Verdict
from steelyard.balance.types import Action
from steelyard.balance.words import moment
from tests.builders import a_revision
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.replicas import Setup

BALANCED = {
    "stages.environment.replicas": {"min": 4, "max": 4},
    "stages.sampler.replicas": {"min": 1, "max": 3, "initial": 1},
    "stages.rewardServer.replicas": {"min": 1, "max": 3, "initial": 2},
}
"""The demo at its best: a judge fewer halves the throughput."""


def a_loop(changes: dict[str, Any] | None = None, seconds: float = 100) -> Loop:
    return Loop(demo_job({**BALANCED, **(changes or {})}), Setup(scrape_seconds=2.0)).run(seconds)


def by_hand(loop: Loop, after: Allocation, held_seconds: float | None = 0.0, **spec: Any) -> AllocationRevision:
    """What `kubectl create` leaves: no parent, nothing about before, and no word on what was measured."""
    now = loop.pipeline.now
    expires = None if held_seconds is None else moment(now + held_seconds)
    fields = {"parent": None, "reason": "try it", "expires_at": expires, **spec}
    revision = a_revision(fields.pop("number", len(loop.revisions) + 1), after, origin=Origin.USER, **fields)
    created = revision.metadata.model_copy(update={"creation_timestamp": moment(now)})
    revision = revision.model_copy(update={"metadata": created})
    loop.revisions.append(revision)
    return revision


def with_replicas(loop: Loop, sampler: int, reward: int) -> Allocation:
    current = loop.active.spec.allocation.after
    return current.replace(Stage.SAMPLER, {"whole": sampler}).replace(Stage.REWARD_SERVER, {"whole": reward})


def entry(loop: Loop, revision: AllocationRevision) -> AllocationRevision:
    return next(one for one in loop.revisions if one.metadata.name == revision.metadata.name)


def seconds_between(status: Any, first: str, last: str) -> float:
    span: float = (getattr(status, last) - getattr(status, first)).total_seconds()
    return span


@pytest.mark.parametrize("mode", ["Dynamic", "Observe"])
def test_a_harmful_trial_is_taken_back_within_one_window_and_the_ledger_says_why(mode: str) -> None:
    loop = a_loop({"scaling.mode": mode})
    best = loop.active.spec.allocation.after
    tried = by_hand(loop, with_replicas(loop, sampler=2, reward=1))
    loop.run(120)

    status = entry(loop, tried).status
    assert status.verdict is Verdict.ROLLED_BACK
    assert "that the allocation before would reach now" in (status.evidence or "")
    assert status.windows == 0
    steps = loop.job.spec.scaling.evaluation.steps
    assert seconds_between(status, "measuring_time", "judged_time") <= (steps + 2) * 32 / 2.5  # 2.5 a second are left
    assert loop.active.spec.origin is Origin.ROLLBACK
    assert loop.active.spec.allocation.after == best
    assert "calculator-2 is taken back (sampler 2 -> 1, reward-server 1 -> 2)" in loop.active.spec.reason


def test_a_trial_that_helps_is_kept() -> None:
    loop = a_loop({"scaling.mode": "Observe", "stages.rewardServer.replicas": {"min": 1, "max": 3}})
    tried = by_hand(loop, with_replicas(loop, sampler=1, reward=2))
    loop.run(120)
    assert entry(loop, tried).status.verdict is Verdict.KEPT
    assert loop.active.metadata.name == tried.metadata.name


def test_a_number_that_is_taken_is_never_applied_and_the_entry_says_so() -> None:
    loop = a_loop()
    late = by_hand(loop, with_replicas(loop, sampler=3, reward=1), number=1)
    renamed = late.metadata.model_copy(update={"name": "zzz"})
    loop.revisions[-1] = late.model_copy(update={"metadata": renamed})
    loop.run(10)
    status = loop.revisions[-1].status
    assert status.phase is RevisionPhase.SUPERSEDED
    assert status.evidence == "never applied: calculator-1 took its place"
    assert loop.active.metadata.name == "calculator-1"


def test_a_hold_is_never_taken_back_before_it_expires_and_its_harm_is_told() -> None:
    loop = a_loop()
    held = by_hand(loop, with_replicas(loop, sampler=2, reward=1), held_seconds=200)
    loop.run(190)
    status = entry(loop, held).status
    assert loop.active.metadata.name == held.metadata.name
    assert status.verdict is None
    assert (status.evidence or "").startswith("harmful: 2.")
    said = loop.decisions[-1][1]
    assert said.kind == "Held"
    assert "calculator-2 is held by its user for" in said.reason
    assert "harmful so far" in said.reason

    loop.run(20)
    assert entry(loop, held).status.verdict is Verdict.ROLLED_BACK
    assert loop.active.spec.origin is Origin.ROLLBACK


def test_a_hold_without_end_ends_only_by_its_users_hand() -> None:
    loop = a_loop()
    best = loop.active.spec.allocation.after
    held = by_hand(loop, with_replicas(loop, sampler=2, reward=1), held_seconds=None)
    loop.run(150)
    assert loop.active.metadata.name == held.metadata.name
    assert "without end" in loop.decisions[-1][1].reason

    loop.revisions.remove(entry(loop, held))  # kubectl delete
    loop.run(10)
    assert loop.active.spec.allocation.after == best


def test_writing_a_hold_costs_the_ledger_a_handful_of_writes() -> None:
    loop = a_loop()
    held = by_hand(loop, with_replicas(loop, sampler=2, reward=1), held_seconds=3000)
    writes = 0
    for _ in range(40):
        writes += held.metadata.name in loop.tick().updates
        loop.pipeline.advance(5)
    assert writes <= 6


def test_what_the_spec_does_not_allow_is_refused_and_never_applied() -> None:
    loop = a_loop()
    best = loop.active.spec.allocation.after
    refused = by_hand(loop, with_replicas(loop, sampler=50, reward=1), held_seconds=None)
    loop.run(10)
    status = entry(loop, refused).status
    assert status.verdict is Verdict.ROLLED_BACK
    assert status.applied_time is None
    assert "spec.stages and spec.budget do not allow it; they would allow sampler" in (status.evidence or "")
    assert loop.active.spec.allocation.after == best
    assert all(n <= 2 for n in loop.pipeline.desired.values() if n != 4)


def test_a_hold_that_the_spec_outgrows_stays_a_hold() -> None:
    loop = a_loop()
    by_hand(loop, with_replicas(loop, sampler=1, reward=1), held_seconds=500)
    loop.run(20)
    loop.job = loop.pipeline.job = demo_job({**BALANCED, "stages.environment.replicas": {"min": 3, "max": 3}})
    loop.run(20)
    assert loop.active.spec.origin is Origin.USER
    assert loop.active.spec.expires_at is not None
    assert loop.active.spec.allocation.after.replicas(Stage.ENVIRONMENT) == 3
    assert loop.decisions[-1][1].kind == "Held"


def test_in_mode_fixed_a_revision_by_hand_lasts_as_long_as_its_hold() -> None:
    fixed = {"scaling.mode": "Fixed", "scaling.fixed": {"rewardServer": {"whole": 2}}}
    loop = a_loop(fixed)
    best = loop.active.spec.allocation.after
    by_hand(loop, with_replicas(loop, sampler=2, reward=1), held_seconds=60)
    loop.run(50)
    assert loop.active.spec.origin is Origin.USER
    loop.run(150)
    assert loop.active.spec.allocation.after == best


def test_a_pin_decides_over_a_trial_and_spares_it() -> None:
    loop = a_loop()
    tried = by_hand(loop, with_replicas(loop, sampler=2, reward=1))
    loop.job = loop.pipeline.job = demo_job({**BALANCED, "scaling.pin": "calculator-2"})
    loop.run(150)
    assert loop.active.metadata.name == tried.metadata.name
    status = entry(loop, tried).status
    assert status.verdict is Verdict.INCONCLUSIVE
    assert "it stays because spec.scaling.pin decides" in (status.evidence or "")
    loop.job = loop.pipeline.job = demo_job({**BALANCED, "scaling.pin": "calculator-1"})
    loop.run(60)
    assert loop.active.spec.allocation.after == with_replicas(loop, sampler=1, reward=2)


def test_a_trial_is_not_judged_on_missing_metrics() -> None:
    loop = a_loop()
    tried = by_hand(loop, with_replicas(loop, sampler=2, reward=1))
    loop.run(10)
    loop.blind = True
    loop.run(100)
    assert entry(loop, tried).status.verdict is None
    assert loop.active.metadata.name == tried.metadata.name
    loop.blind = False
    loop.run(150)
    assert entry(loop, tried).status.verdict is Verdict.ROLLED_BACK


def test_a_trial_made_while_blind_is_compared_with_what_was_last_judged() -> None:
    loop = a_loop()
    loop.blind = True
    tried = by_hand(loop, with_replicas(loop, sampler=2, reward=1))
    loop.run(10)
    assert entry(loop, tried).status.inputs == {}
    loop.blind = False
    loop.run(150)
    assert entry(loop, tried).status.verdict is Verdict.ROLLED_BACK
    assert "(error 2" in (entry(loop, tried).status.evidence or "")


def test_what_a_user_tried_in_vain_bars_the_balance_too_but_is_no_losing_streak() -> None:
    loop = a_loop()
    by_hand(loop, with_replicas(loop, sampler=2, reward=1))
    loop.run(150)
    rolled = [one for one in loop.revisions if one.status.verdict is Verdict.ROLLED_BACK]
    assert len(rolled) == 1
    moves = [decision for at, decision in loop.decisions if decision.action is Action.MOVE and at > 100]
    assert not moves
