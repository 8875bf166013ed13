"""Diagnosis on any input: findings with sound figures, or none; never an exception."""

from __future__ import annotations

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance import signals
from steelyard.balance.diagnose import SYMPTOMS, advise, bottleneck, no_mismatch, symptoms, wait_graph
from steelyard.balance.observe import observe
from steelyard.balance.surroundings import surroundings
from steelyard.balance.trainer_curve import TrainerSize, fitted
from steelyard.balance.types import Rates, Series
from tests.property.effort import costly
from tests.property.test_balance import INSTANTS, VALUES
from tests.unit.balance.builders import NOW, START, a_view, pods_of
from tests.unit.balance.loop import demo_job
from tests.unit.balance.test_diagnose import SHOWS

CASES = st.sampled_from(sorted(SHOWS))
NAMES = st.sampled_from([*(pod.name for pod in pods_of(START)), "calculator-bus-0", "calculator-checkpoints"])
LABELS = st.sampled_from(
    [
        *[("state", state) for state in ("busy", "paced", "sync")],
        *[("buffer", buffer) for buffer in ("experience", "trajectories")],
        *[("le", bound) for bound in ("100", "+Inf", "nan", "x")],
        ("outcome", "ok"),
    ]
)
ODD = st.builds(
    Series,
    st.lists(LABELS, max_size=2).map(tuple),
    st.lists(st.tuples(INSTANTS, VALUES), max_size=12).map(lambda samples: tuple(sorted(samples))),
)


SPOILS = st.lists(st.tuples(st.sampled_from(signals.ALL), NAMES, st.lists(ODD, max_size=3)), max_size=6)


@costly
@given(CASES, SPOILS, st.sampled_from([0.0, 4.0, 120.0]))
def test_contradictory_figures_give_sound_findings_or_none(
    case: str, spoils: list[tuple[str, str, list[Series]]], window_seconds: float
) -> None:
    """A pipeline with a symptom, of which some series contradict the others, say nonsense, or are gone."""
    samples = {metric: dict(pods) for metric, pods in SHOWS[case][0].rates().samples.items()}
    for metric, name, series in spoils:
        samples.setdefault(metric, {})[name] = tuple(series)
    rates = Rates(window_seconds, samples)
    job = demo_job()
    observed = observe(a_view(job), rates, NOW)
    graph = wait_graph(observed)
    told = symptoms(observed, graph, surroundings(rates, NOW), job.spec)
    assert len(told) <= len(SYMPTOMS)
    assert len({one.symptom for one in told}) == len(told)
    for text in (*(one.evidence for one in told), no_mismatch(graph, 0.0).evidence):
        assert not {"nan", "inf", "-"} & set(text.replace(",", " ").split())
    pointed = bottleneck(graph, None)
    assert pointed is None or pointed.evidence
    assert advise(told, None, 0.05) is None or told


@costly
@given(
    st.lists(
        st.tuples(
            st.integers(-1, 64),
            st.one_of(st.floats(0, 1e300), st.sampled_from([0.0, -1.0, nan, inf, 1e-320])),
            st.one_of(st.floats(0, 1e6), st.sampled_from([nan, inf, 0.0])),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_sizes_of_the_trainer_give_a_curve_that_stays_positive(seen: list[tuple[int, float, float]]) -> None:
    now, *before = [TrainerSize(*one) for one in seen]
    curve = fitted(now, before)
    assert curve.speedup(0) == 0
    assert all(0 < curve.speedup(n) <= n for n in range(1, 65))
