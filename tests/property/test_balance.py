"""The balance on any input: an answer with a reason, never an exception, never outside the bounds."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.api import Allocation, AllocationRevision, Origin, RevisionPhase, Stage
from steelyard.balance import balance, signals
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.counter import Counter
from steelyard.balance.draws import Draws
from steelyard.balance.ledger import inputs_of, model_of
from steelyard.balance.model import Bounds, Capacities, Estimate, Model, Workload
from steelyard.balance.types import Action, MetricsProblem, MetricsUnavailable, Plan, Rates, Series
from tests.builders import a_revision
from tests.property.effort import costly, dear
from tests.unit.balance.builders import NOW, START, a_view, pods_of, steady
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_draws import one_by_one
from tests.unit.balance.test_gate import time

VALUES = st.one_of(
    st.floats(0, 1e4), st.sampled_from([0.0, -1.0, nan, inf, -inf, 1e300, 1e-300]), st.integers(0, 50).map(float)
)
INSTANTS = st.one_of(st.floats(NOW - 200, NOW + 10), st.sampled_from([nan, inf, 0.0, -1e18, NOW]))
LABELS = st.sampled_from(
    [("state", "busy"), ("state", "tool"), ("state", "odd"), ("outcome", "ok"), ("outcome", ""), ("buffer", "tasks")]
)
SERIES = st.builds(
    Series,
    st.lists(LABELS, max_size=2).map(tuple),
    st.lists(st.tuples(INSTANTS, VALUES), max_size=12).map(lambda samples: tuple(samples)),
)
ORDERED = SERIES.map(lambda one: Series(one.labels, tuple(sorted(one.samples))))
COUNTS = st.integers(0, 4)


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    profiles = {Stage.ENVIRONMENT: ["default"]}
    return Allocation.of(
        {stage: {profile: draw(COUNTS) for profile in profiles.get(stage, ["whole", "slice"])} for stage in Stage}
    )


@st.composite
def odd_rates(draw: st.DrawFn) -> Rates:
    """Whatever a metrics source might say, about any pod."""
    if draw(st.integers(0, 9)) == 0:
        return Rates(unavailable=MetricsUnavailable(MetricsProblem.UNREACHABLE, "gone"))
    names = [pod.name for pod in pods_of(START)] + ["calculator-bus-0"]
    return Rates(
        draw(st.sampled_from([0.0, 30.0, 120.0, 900.0])),
        {
            metric: {name: tuple(draw(st.lists(st.one_of(SERIES, ORDERED), max_size=2))) for name in draw(some(names))}
            for metric in draw(some(list(signals.ALL)))
        },
    )


def some(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=6, unique=True)


@st.composite
def odd_ledgers(draw: st.DrawFn) -> tuple[AllocationRevision, ...]:
    """Ledgers in any state, also such as only a bug or a stranger would leave."""
    revisions = []
    for number in range(1, draw(st.integers(1, 4)) + 1):
        moments = st.one_of(st.none(), st.floats(NOW - 300, NOW + 60).map(time))
        names = ("applied_time", "settling_time", "measuring_time", "judged_time")
        status: dict[str, Any] = {name: draw(moments) for name in names}
        status["verdict"] = draw(st.sampled_from([None, "Kept", "RolledBack", "Inconclusive"]))
        status["windows"] = draw(st.integers(0, 5))
        inputs = draw(st.sampled_from([{}, {"throughput": "nan"}, {"throughput": "x"}, {"batch": "1"}, SANE_INPUTS]))
        revisions.append(
            a_revision(
                number,
                draw(allocations()),
                before=draw(allocations()),
                origin=draw(st.sampled_from(list(Origin))),
                phase=draw(st.sampled_from(list(RevisionPhase))),
                inputs=inputs,
                predicted=draw(st.sampled_from([None, {"gainPercent": 10, "costSeconds": 5}])),
                status=status,
            )
        )
    return tuple(revisions)


def positive(most: float = 1e4) -> st.SearchStrategy[float]:
    return st.floats(1e-3, most)


@st.composite
def models(draw: st.DrawFn) -> Model:
    latency = TokenLatency(draw(positive(1)), draw(st.floats(0, 0.1)), draw(st.integers(1, 512)), draw(st.floats(0, 2)))
    known = draw(st.booleans())
    rates = {
        stage: {"whole": Estimate(draw(positive()), draw(st.floats(0, 2)))}
        for stage in (Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)
    }
    if known:
        rates[Stage.SAMPLER] = {"whole": Estimate(latency.capacity, latency.error)}
    batch = draw(st.integers(1, 512))
    return Model(
        Workload(
            draw(st.floats(0, 1e5)),
            draw(st.floats(0, 1e3)),
            draw(st.floats(0, 1e3)),
            draw(st.floats(0, 1e2)),
            draw(st.floats(0, 2)),
            {stage: draw(st.floats(1, 10)) for stage in Stage},
        ),
        Capacities(rates, {"whole": latency} if known else {}, {}, draw(st.integers(1, 512)), draw(st.floats(0, 60))),
        Bounds(batch, batch * draw(st.integers(1, 5))),
    )


SANE_INPUTS = inputs_of(
    Model(
        Workload(40, 3, 0.5, 0.1, 0.05, {Stage.ENVIRONMENT: 1.0}),
        Capacities({stage: {"whole": Estimate(3.0, 0.05)} for stage in Stage}, {}, {}, 8),
        Bounds(32, 96),
    ),
    1.5,
)


def sound(plan: Plan) -> None:
    """What holds for every plan."""
    spec = demo_job().spec
    assert plan.decision.reason
    assert plan.decision.kind.isalpha()
    assert 0 < plan.wake < inf
    assert 0 < plan.window_seconds < inf
    if plan.revision is None:
        assert plan.decision.action in (Action.HOLD, Action.RECOMMEND)
        return
    after = plan.revision.spec.allocation.after
    assert plan.active is plan.revision
    assert after.gpus(spec.gpu_prices) <= spec.budget.gpus
    for stage in Stage:
        assert spec.stage(stage).replicas.min <= after.replicas(stage) <= spec.stage(stage).replicas.max


@dear
@given(odd_rates(), odd_ledgers())
def test_odd_metrics_and_odd_ledgers_get_an_answer(rates: Rates, revisions: tuple[AllocationRevision, ...]) -> None:
    sound(balance(a_view(revisions=revisions), rates, NOW))


@dear
@given(
    st.floats(0.05, 20),
    st.floats(0.01, 30),
    st.floats(0.01, 5),
    st.floats(0.01, 3),
    st.floats(0.1, 60),
    st.integers(1, 2),
    st.sampled_from(["Throughput", "Efficiency"]),
)
def test_any_steady_pipeline_gets_a_plan_within_bounds_and_none_after_that(
    trajectories: float, tool: float, tokens: float, judge: float, train: float, judges: int, objective: str
) -> None:
    """Nothing flaps: once the plan is in force and the same rates hold, nothing else is proposed."""
    slots = 8
    assume(trajectories * (tool + tokens) <= slots)
    assume(trajectories * judge <= judges)
    assume(trajectories * train <= 32)
    job = demo_job({"scaling.objective": objective})
    start = START.replace(Stage.REWARD_SERVER, {"whole": judges})
    first = a_revision(1, start, phase=RevisionPhase.JUDGED, status={"measuring_time": time(NOW - 115)})
    sheet = steady(
        trajectories=trajectories,
        tool_seconds=tool,
        token_seconds=tokens,
        judge_seconds=judge,
        train_seconds=train,
        judges=judges,
    )
    seen = a_view(job, (first,), start)
    plan = balance(seen, sheet.rates(), NOW)
    sound(plan)
    if plan.revision is not None:
        made = plan.revision.metadata.model_copy(update={"creation_timestamp": time(NOW)})
        recorded = plan.revision.model_copy(update={"metadata": made})
        again = balance(a_view(job, (first, recorded), recorded.spec.allocation.after), sheet.rates(), NOW + 1)
        assert again.revision is None
        assert again.decision.kind == "OpenMove"


@costly
@given(models(), allocations())
def test_more_replicas_never_promise_less(model: Model, allocation: Allocation) -> None:
    promised = model.promise(allocation).throughput
    for stage in Stage:
        profile = "default" if stage is Stage.ENVIRONMENT else "whole"
        more = {**allocation[stage], profile: allocation[stage].get(profile, 0) + 1}
        if stage is Stage.SAMPLER and set(more) != {"whole"}:
            continue  # a profile of unknown speed makes the mix unknown
        assert model.promise(allocation.replace(stage, more)).throughput >= promised * (1 - 1e-6)


@costly
@given(models())
def test_the_ledger_gives_back_the_model_that_was_written(model: Model) -> None:
    again = model_of(inputs_of(model, 1.0))
    assert again is not None
    assert again.bounds == model.bounds
    ours, theirs = model.promise(START), again.promise(START)
    assert abs(ours.throughput - theirs.throughput) <= 0.02 * ours.throughput + 1e-9


@costly
@given(models(), allocations())
def test_draws_are_finite_and_what_each_moved_model_promises(model: Model, allocation: Allocation) -> None:
    together = Draws(model).throughput(allocation)
    assert all(0 <= throughput < inf for throughput in together)
    assert together == pytest.approx([one.throughput(allocation) for one in one_by_one(model)], rel=1e-6, abs=1e-300)


@costly
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e9)), min_size=1, max_size=20))
def test_a_counter_never_decreases(samples: list[tuple[float, float]]) -> None:
    counter = Counter.of(sorted(samples), None)
    assert all(earlier <= later for earlier, later in pairwise(counter.totals))
