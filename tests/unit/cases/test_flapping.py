"""Up and down and up again: cooldowns, one move at a time, no faster than twofold, never above the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import pi, sin

import pytest

from steelyard.api import Origin, RevisionPhase, Stage
from steelyard.balance import balance
from steelyard.balance.bounds import stage_bounds
from steelyard.balance.lessons import moved
from tests.builders import a_revision
from tests.unit.balance.builders import NOW, START, a_view, steady
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.replicas import Setup
from tests.unit.balance.test_balance import SLOW_TOOLS, judged
from tests.unit.balance.test_gate import a_trial, time

MANY = {"stages.sampler.replicas": {"min": 1, "max": 12}, "budget.gpus": 16}


@pytest.mark.parametrize(("before", "after"), [(6, 3), (3, 2), (2, 1), (1, 2)])
def test_the_cooldown_holds_for_every_step_down_and_up(before: int, after: int) -> None:
    """kedacore/keda#737, kedacore/keda#6844: a cooldown that only covered the last step to zero surprised everybody."""
    old, new = (START.replace(Stage.SAMPLER, {"whole": n}) for n in (before, after))
    job = demo_job({**MANY, "scaling.cooldownSeconds": 120})
    seen = a_view(job, (a_trial(2, "Kept", NOW - 119, old, new),))
    bound = stage_bounds(seen, new, NOW)[Stage.SAMPLER]
    assert (bound.low, bound.high) == (after, after)
    assert bound.frozen == "sampler was moved by calculator-2 and rests for 1 s more"
    assert stage_bounds(seen, new, NOW + 2)[Stage.SAMPLER].frozen is None


def test_a_wave_around_the_threshold_moves_each_stage_at_most_once_in_a_cooldown() -> None:
    """pmady/keda-gpu-scaler#110: flapping near the threshold. More inputs: tests/property/test_calm.py."""
    calm = Setup(scrape_seconds=2.0)
    loop = Loop(demo_job({"scaling.cooldownSeconds": 100, "scaling.intervalSeconds": 10}), calm)
    for second in range(0, 300, 10):
        loop.pipeline.setup = replace(calm, judge_seconds=0.6 + 0.55 * sin(2 * pi * second / 60))
        loop.run(10)
    for stage in Stage:
        times = [
            one.metadata.creation_timestamp.timestamp()
            for one in loop.revisions[1:]
            if one.spec.origin is Origin.OPERATOR and one.metadata.creation_timestamp
            if stage in moved(one.spec.allocation.before, one.spec.allocation.after)
        ]
        assert all(later - earlier >= 100 for earlier, later in pairwise(times)), stage


@pytest.mark.parametrize("phase", [RevisionPhase.PENDING, RevisionPhase.APPLYING, RevisionPhase.SETTLING])
def test_one_resize_is_in_flight_however_loud_the_metrics_are(phase: RevisionPhase) -> None:
    """kubernetes-sigs/kueue#11553: rapid scaling left duplicate slices that reserved quota twice."""
    wide = START.replace(Stage.ENVIRONMENT, {"default": 2})
    status = {"applied_time": time(NOW - 9), "settling_time": time(NOW - 5)}
    open_ = a_revision(
        2, wide, before=START, phase=phase, predicted={"gainPercent": 9, "costSeconds": 2}, status=status
    )
    view = a_view(demo_job(), (judged(), open_), wide)
    plan = balance(view, steady(**{**SLOW_TOOLS, "environments": 2}).rates(), NOW)
    assert plan.revision is None
    assert plan.decision.kind == "OpenMove"


def test_no_stage_more_than_doubles_or_halves_and_the_budget_is_never_exceeded() -> None:
    """ray-project/kuberay#859, ray-project/kuberay#865: workers were added without end until the cluster was full."""
    for n in (1, 2, 3, 6, 12):
        bound = stage_bounds(a_view(demo_job(MANY)), START.replace(Stage.SAMPLER, {"whole": n}), NOW)[Stage.SAMPLER]
        assert bound.low >= n / 2
        assert bound.high <= min(2 * n, 12)
    loop = Loop(demo_job(), Setup(scrape_seconds=2.0, judge_seconds=2.0, alpha=0.2)).run(200)
    assert loop.pipeline.most_gpus <= 4
    assert loop.pipeline.created <= 12
