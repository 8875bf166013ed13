"""Accounting holds for whatever was measured: nothing is booked twice, nothing that is unknown becomes a number."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api import AllocationRevision, RevisionPhase, Stage
from steelyard.audit.coarse import coarse
from steelyard.audit.drawings import held_back, lanes
from steelyard.audit.gputime import asked_for, gpu_time, reigns, replicas, shares
from steelyard.audit.histogram import quantile
from steelyard.audit.moves import versus_static
from steelyard.audit.record import Grid, Line, Record
from steelyard.audit.report import audit, questions, verdict
from steelyard.audit.text import text
from steelyard.audit.waits import edges, graph
from tests.builders import a_job, a_revision, an_allocation
from tests.property.effort import costly, dear

START, STEP, COUNT = 1_800_000_000.0, 15.0, 8
PRICES = {
    Stage.SAMPLER: {"whole": 1.0, "slice": 0.5},
    Stage.REWARD_SERVER: {"whole": 1.0},
    Stage.TRAINER: {"whole": 2.0},
}
STATES = ("busy", "starved", "sync", "blocked")
SLOTS = ((Stage.SAMPLER, "whole"), (Stage.SAMPLER, "slice"), (Stage.REWARD_SERVER, "whole"), (Stage.TRAINER, "whole"))

rates = st.one_of(st.none(), st.just(0.0), st.floats(0, 100))
counts = st.one_of(st.none(), st.integers(1, 5).map(float))


def values(of: st.SearchStrategy[float | None]) -> st.SearchStrategy[tuple[float | None, ...]]:
    return st.lists(of, min_size=COUNT, max_size=COUNT).map(tuple)


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[AllocationRevision, ...]:
    """Up to four revisions of the samplers, some applied, some measured, some before the span."""
    found = []
    for number in range(1, draw(st.integers(0, 4)) + 1):
        status: dict[str, object] = {}
        if draw(st.booleans()):
            at = START + draw(st.integers(-100, int(COUNT * STEP)))
            status["appliedTime"] = datetime.fromtimestamp(at, UTC)
            if draw(st.booleans()):
                status["measuringTime"] = datetime.fromtimestamp(at + draw(st.integers(-10, 60)), UTC)
        if draw(st.booleans()):
            status["measured"] = {
                "throughputBefore": draw(st.sampled_from(["0", "0.5", "2"])),
                "throughputAfter": draw(st.sampled_from(["0.1", "1", "3"])),
                "transitionCostSeconds": draw(st.sampled_from([None, "0", "20", "1000"])),
            }
        before, after = (an_allocation({Stage.SAMPLER: {"whole": draw(st.integers(1, 3))}}) for _ in range(2))
        found.append(a_revision(number, after, before=before, phase=RevisionPhase.JUDGED, status=status))
    return tuple(found)


@st.composite
def records(draw: st.DrawFn) -> Record:
    states = tuple(
        Line({"stage": stage.value, "profile": profile, "state": state}, draw(values(rates)))
        for stage, profile in SLOTS
        for state in draw(st.sets(st.sampled_from(STATES)))
    )
    there = tuple(
        Line({"stage": stage.value, "profile": profile}, draw(values(counts)))
        for stage, profile in draw(st.sets(st.sampled_from(SLOTS)))
    )
    grid = Grid(START + STEP, STEP, COUNT)
    return Record(
        "calculator", "default", START, START + STEP * COUNT, grid, job=a_job(), revisions=draw(ledgers()),
        lines={"states": states, "replicas": there},
    )  # fmt: skip


@dear
@given(records())
def test_every_gpu_second_that_was_held_is_booked_once(record: Record) -> None:
    time = gpu_time(record, PRICES)
    seen, asked = replicas(record), asked_for(record.revisions, record.grid)
    held = 0.0
    for index in range(COUNT):
        if any(line[index] for line in seen.values()):
            for slot in {*seen, *asked}:
                there = seen[slot][index] or 0.0 if slot in seen else 0.0
                wanted = asked[slot][index] or 0.0 if slot in asked else 0.0
                held += max(there, wanted) * PRICES.get(slot[0], {}).get(slot[1], 0.0) * STEP / 3600
    assert time.held == pytest.approx(held)
    assert time.held == pytest.approx(sum(time.of(which) for which in ("busy", "waiting", "idle")))
    assert all(hours >= 0 for states in time.hours.values() for hours in states.values())
    assert sum(hours for *_, hours in time.causes()) == pytest.approx(time.wasted)
    assert 0 <= time.known_seconds <= record.seconds


@costly
@given(st.dictionaries(st.sampled_from(STATES), values(rates), min_size=1))
def test_shares_sum_to_one_or_are_all_unknown(states: dict[str, tuple[float | None, ...]]) -> None:
    found = shares(states)
    for column in zip(*found.values(), strict=True):
        known = [share for share in column if share is not None]
        assert len(known) in (0, len(column))
        assert not known or sum(known) == pytest.approx(1)


@costly
@given(ledgers())
def test_reigns_follow_each_other_without_overlap(ledger: tuple[AllocationRevision, ...]) -> None:
    spans = reigns(ledger, START, START + 120)
    assert all(START <= span.start < span.end <= START + 120 for span in spans)
    assert all(one.end == other.start for one, other in pairwise(spans))


@costly
@given(ledgers())
def test_time_is_compared_or_unknown_and_nothing_else(ledger: tuple[AllocationRevision, ...]) -> None:
    found = versus_static(ledger, [(START, START + 120)], PRICES)
    spans = reigns(ledger, START, START + 120)
    if found is None:
        assert not spans
        return
    assert found.seconds + found.unknown_seconds == pytest.approx(sum(span.seconds for span in spans))
    assert found.static_seconds >= 0
    assert found.moves > 0 or found.saved == pytest.approx(0)


@dear
@given(records())
def test_a_report_of_anything_is_whole(record: Record) -> None:
    report = audit(record, 1.0)
    assert verdict(report).endswith(".")
    assert all(one.answer for one in questions(report))
    assert "None" not in text(report)
    assert "nan" not in text(report)
    for wait in edges(graph(record), report.time):
        assert 0 < wait.share <= 1


@dear
@given(records(), st.integers(1, COUNT))
def test_drawings_show_what_is_there_and_break_where_nothing_is(record: Record, most: int) -> None:
    drawn = coarse(record, most)
    assert drawn.grid.count <= most
    for lane in lanes(drawn):
        assert sum(lane.share.values()) == pytest.approx(1)
    assert held_back(drawn)


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.floats(0, 100)), max_size=8), st.floats(0, 1))
def test_a_quantile_lies_between_the_bounds(buckets: list[tuple[float, float]], share: float) -> None:
    cumulative, total = [], 0.0
    for bound, count in sorted(dict(buckets).items()):
        total += count
        cumulative.append((bound, total))
    found = quantile([*cumulative, (math.inf, total)], share)
    assert (found is None) == (total <= 0)
    assert found is None or 0 <= found <= max(bound for bound, _ in cumulative)
