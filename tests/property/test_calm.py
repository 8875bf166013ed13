"""Nothing flaps: whatever is measured and however moves turn out, a stage moves once in a cooldown and bars hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import pi, sin
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import AllocationRevision, Origin, RevisionPhase, Stage, Verdict
from steelyard.balance.decide import Outcome, Picture, improve, roll_back
from steelyard.balance.estimate import Estimated
from steelyard.balance.lessons import moved
from steelyard.balance.model import Bounds, Capacities, Estimate, Model, Workload
from steelyard.balance.observe import Observed, Window
from steelyard.balance.types import Seen
from steelyard.balance.words import moment
from tests.builders import a_revision
from tests.property.effort import closed_loops, costly
from tests.unit.balance.builders import NOW, START
from tests.unit.balance.loop import Loop, demo_job
from tests.unit.balance.replicas import Setup

JOB = demo_job({"scaling.cooldownSeconds": 120, "scaling.horizonSeconds": 600, "algorithm.steps": 100_000})
SCALING = JOB.spec.scaling
COOLDOWN = 200
"""Of the closed loops: longer than a move takes until its verdict, else it would bind nothing."""


@dataclass
class Fate:
    """A ledger in the hands of somebody who chooses what is measured, when, and how every move turns out."""

    revisions: list[AllocationRevision] = field(default_factory=list)
    now: float = NOW

    def __post_init__(self) -> None:
        first = a_revision(1, START, phase=RevisionPhase.JUDGED)
        self.revisions.append(_created(first, self.now - 9000))

    def measure(self, model: Model) -> None:
        picture = self._picture(model)
        self._record(improve(picture, model, model.promise(picture.active.spec.allocation.after).throughput))

    def judge(self, model: Model, verdict: Verdict) -> None:
        """The open move, if there is one, turned out like this."""
        active = self.revisions[-1]
        if active.spec.origin is not Origin.OPERATOR or active.status.verdict or active.spec.parent is None:
            return
        status = {"verdict": verdict, "judged_time": moment(self.now), "settling_time": moment(self.now)}
        self.revisions[-1] = active.model_copy(update={"status": active.status.model_copy(update=status)})
        if verdict is Verdict.ROLLED_BACK:
            self._record(roll_back(self._picture(model), "fate"))

    def _picture(self, model: Model) -> Picture:
        seen = Seen(JOB, tuple(self.revisions))
        return Picture(
            seen, self.revisions[-1], Observed(Window(self.now - 60, self.now, 1)), Estimated(model), self.now
        )

    def _record(self, outcome: Outcome) -> None:
        if outcome.revision:
            self.revisions.append(_created(outcome.revision, self.now))


def _created(revision: AllocationRevision, at: float) -> AllocationRevision:
    metadata = revision.metadata.model_copy(update={"creation_timestamp": moment(at)})
    return revision.model_copy(update={"metadata": metadata})


def made(revision: AllocationRevision) -> float:
    assert revision.metadata.creation_timestamp is not None
    return revision.metadata.creation_timestamp.timestamp()


def own(revision: AllocationRevision) -> bool:
    return revision.spec.origin is Origin.OPERATOR and revision.spec.parent is not None


def rests(revisions: Iterable[AllocationRevision], cooldown: float) -> None:
    """The balance leaves a stage alone for a cooldown after each change of it; only a rollback may come sooner."""
    ledger = list(revisions)
    for stage in Stage:
        changes = [one for one in ledger[1:] if stage in moved(one.spec.allocation.before, one.spec.allocation.after)]
        for earlier, later in pairwise(changes):
            if own(later):
                assert made(later) - made(earlier) >= cooldown, (stage, earlier.spec.reason, later.spec.reason)
            else:
                assert own(earlier), "a rollback never follows a rollback"


def bars_hold(revisions: Iterable[AllocationRevision], horizon: float) -> None:
    """The exchange that was rolled back is not made again for the horizon, twice as long after each failure."""
    failed: list[AllocationRevision] = []
    for revision in revisions:
        if own(revision):
            move = revision.spec.allocation
            same = [
                one
                for one in failed
                if all(
                    dict(one.spec.allocation.after[stage]) == dict(move.after[stage])
                    for stage in moved(one.spec.allocation.before, one.spec.allocation.after)
                )
                and moved(one.spec.allocation.before, one.spec.allocation.after) & moved(move.before, move.after)
            ]
            if same:
                judged = same[-1].status.judged_time
                assert judged is not None
                assert made(revision) >= judged.timestamp() + horizon * 2 ** (len(same) - 1)
        if revision.status.verdict is Verdict.ROLLED_BACK:
            failed.append(revision)


def streaks_hold(revisions: Iterable[AllocationRevision], horizon: float) -> None:
    """After two failures in a row the balance keeps still for the horizon."""
    row: list[AllocationRevision] = []
    for revision in filter(own, revisions):
        if len(row) >= 2:
            judged = row[-1].status.judged_time
            assert judged is not None
            assert made(revision) >= judged.timestamp() + horizon * 2 ** (len(row) - 2)
        row = [*row, revision] if revision.status.verdict is Verdict.ROLLED_BACK else []


def allowed(revisions: Iterable[AllocationRevision]) -> None:
    for revision in revisions:
        after = revision.spec.allocation.after
        assert after.gpus(JOB.spec.gpu_prices) <= JOB.spec.budget.gpus
        for stage in Stage:
            replicas = JOB.spec.stage(stage).replicas
            assert replicas.min <= after.replicas(stage) <= replicas.max


RATES = st.sampled_from([0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 6.0, 20.0])


@st.composite
def models(draw: st.DrawFn) -> Model:
    """What some window says: mostly sure of itself, so that the balance wants to move."""
    error = draw(st.sampled_from([0.01, 0.05, 0.3]))
    rates = {
        stage: {"whole": Estimate(draw(RATES) * scale, error), "slice": Estimate(draw(RATES) * scale / 2, error)}
        for stage, scale in ((Stage.SAMPLER, 40.0), (Stage.REWARD_SERVER, 1.0), (Stage.TRAINER, 10.0))
    }
    workload = Workload(40.0, draw(st.sampled_from([0.5, 4.0, 30.0])), 0.5, 0.1, error)
    return Model(workload, Capacities(rates, slots=8.0), Bounds(32, 96))


EVENTS = st.lists(
    st.tuples(st.sampled_from([5.0, 30.0, 100.0, 125.0, 400.0, 700.0]), models(), st.sampled_from(list(Verdict))),
    min_size=2,
    max_size=7,
)


@costly
@given(EVENTS)
def test_no_fate_makes_the_balance_flap(events: list[tuple[float, Model, Verdict]]) -> None:
    fate = Fate()
    for gap, model, verdict in events:
        fate.now += gap
        fate.judge(model, verdict)
        fate.now += gap
        fate.measure(model)
    rests(fate.revisions, SCALING.cooldown_seconds)
    bars_hold(fate.revisions, SCALING.horizon_seconds)
    streaks_hold(fate.revisions, SCALING.horizon_seconds)
    allowed(fate.revisions)


SHAPES: dict[str, Callable[[float, float, Random], float]] = {
    "sinusoid": lambda at, period, _: 0.5 + 0.5 * sin(2 * pi * at / period),
    "square": lambda at, period, _: float(at % period < period / 2),
    "step": lambda at, period, _: float(at > period),
    "ramp": lambda at, period, _: at % period / period,
    "noise": lambda at, period, chance: chance.random(),
    "spike": lambda at, period, _: float(at % period < 0.1 * period),
}
"""Levels from 0 to 1 over time."""
KNOBS = {"judge_seconds": (0.1, 1.5), "tool_seconds": (0.5, 8.0), "tokens": (5, 120), "step_seconds": (0.5, 10.0)}


@closed_loops
@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from(sorted(KNOBS)),
    st.sampled_from([20.0, 60.0, 150.0, 400.0]),
    st.integers(0, 10**6),
)
def test_no_input_makes_a_stage_move_twice_in_a_cooldown(shape: str, knob: str, period: float, seed: int) -> None:
    """pmady/keda-gpu-scaler#110, on the whole loop: metrics, verdicts and pods included."""
    low, high = KNOBS[knob]
    calm, chance = Setup(scrape_seconds=2.0, seed=seed), Random(seed)
    loop = Loop(demo_job({"scaling.cooldownSeconds": COOLDOWN, "scaling.intervalSeconds": 10}), calm)
    for second in range(0, 500, 10):
        level = low + (high - low) * SHAPES[shape](second, period, chance)
        turned: dict[str, Any] = {knob: round(level) if knob == "tokens" else level}
        loop.pipeline.setup = replace(calm, **turned)
        loop.run(10)
    rests(loop.revisions, COOLDOWN)
    bars_hold(loop.revisions, 600)
    streaks_hold(loop.revisions, 600)
    assert loop.pipeline.most_gpus <= float(loop.job.spec.budget.gpus)
