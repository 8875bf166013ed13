"""The drawings of a report over time: stage lanes with decision marks, and lines of single figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from steelyard.api import Stage
from steelyard.audit.gputime import UNSEEN, Slot, asked_for, kind, replicas, state_shares
from steelyard.audit.moves import Move
from steelyard.audit.record import Record, Values
from steelyard.balance.diagnose.waits import DOWNSTREAM, Waits, held_back_by
from steelyard.pages.charts import Axis, Frame

STATES = ("busy", "tool", "tokens", "sync", "drain", "blocked", "paced", "starved", UNSEEN)
"""From the bottom of a lane: work, then waits, then idle."""
STATE_WORDS = {
    "busy": "works",
    "tool": "waits for a tool",
    "tokens": "waits for a sampler",
    "sync": "weights",
    "drain": "finishes before it stops",
    "blocked": "output full",
    "paced": "admission closed",
    "starved": "no input",
    UNSEEN: "held, not seen",
}
LANE_HEIGHT, LINE_HEIGHT = 90.0, 130.0
ROUNDING = 1e-6
"""Shares of replicas do not sum to whole ones exactly."""


@dataclass(frozen=True)
class Lane:
    """One stage: as high as it had replicas, split by what their slots did."""

    stage: Stage
    frame: Frame
    layers: tuple[tuple[str, tuple[str, ...]], ...]
    """(state, polygons)."""
    share: dict[str, float]
    """State -> mean share of the replicas' time."""
    least: float | None
    most: float | None

    @property
    def replicas(self) -> str:
        """How many there were."""
        if self.least is None or self.most is None:
            return "no replica"
        least, most = max(round(self.least), 1), max(round(self.most), 1)
        return f"{most} replica{'' if most == 1 else 's'}" if least == most else f"{least} to {most} replicas"

    @property
    def shown(self) -> tuple[str, ...]:
        """States that it was in at all."""
        return tuple(state for state, share in self.share.items() if share > 0)

    @property
    def busy(self) -> float:
        return sum(share for state, share in self.share.items() if kind(state) == "busy")


@dataclass(frozen=True)
class Chart:
    """Lines of one quantity."""

    name: str
    unit: str
    frame: Frame
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    """(name, polylines)."""


@dataclass(frozen=True)
class Span:
    """A stretch of time in which one stage held the others back; None where nobody did or nothing is known."""

    stage: Stage | None
    left: str
    width: str
    share: float
    """Of the whole time."""


def edges(record: Record) -> list[float]:
    return [record.grid.start - record.grid.step, *record.grid.instants]


def across(record: Record) -> Axis:
    return Axis.time(record.grid.start - record.grid.step, record.grid.end)


def lanes(record: Record) -> tuple[Lane, ...]:
    """One lane for each stage that had replicas, upstream first."""
    seen, shares = replicas(record), state_shares(record)
    asked = asked_for(record.revisions, record.grid)
    return tuple(
        _lane(record, stage, states)
        for stage in DOWNSTREAM
        if (states := _states(stage, seen, shares, asked, record.grid.count))
    )


def _states(
    stage: Stage, seen: dict[Slot, Values], shares: dict[Slot, dict[str, Values]], asked: dict[Slot, Values], count: int
) -> dict[str, list[float | None]]:
    """State -> replicas in it, over the grid; None where no replica was seen, though the ledger may have asked."""
    slots = [slot for slot in {*seen, *asked} if slot[0] is stage]
    if not any(any(seen[slot]) for slot in slots if slot in seen):
        return {}
    found: dict[str, list[float | None]] = {state: [None] * count for state in STATES}
    for index in range(count):
        there = {slot: seen[slot][index] or 0.0 if slot in seen else 0.0 for slot in slots}
        if not any(there.values()):
            continue
        for state in STATES:
            found[state][index] = 0.0
        for slot in slots:
            known = {state: values[index] for state, values in shares.get(slot, {}).items()}
            told = [state for state, share in known.items() if share is not None]
            for state in told:
                found[state][index] = (found[state][index] or 0.0) + (known[state] or 0.0) * there[slot]
            wanted = asked[slot][index] or 0.0 if slot in asked else 0.0
            unseen = max(wanted - there[slot], 0.0) + (0.0 if told else there[slot])
            found[UNSEEN][index] = (found[UNSEEN][index] or 0.0) + unseen
    return found


def _lane(record: Record, stage: Stage, states: dict[str, list[float | None]]) -> Lane:
    totals = [sum(value or 0.0 for value in column) for column in zip(*states.values(), strict=True)]
    known = [total for total in totals if total > 0]
    frame = Frame(across(record), _counts(max(known, default=1.0)), LANE_HEIGHT)
    stacked = frame.stack(edges(record), list(states.values()))
    whole = sum(known)
    share = {state: sum(value or 0.0 for value in values) / whole for state, values in states.items()}
    layers = tuple((state, shapes) for state, shapes in zip(states, stacked, strict=True) if shapes)
    return Lane(stage, frame, layers, share, min(known, default=None), max(known, default=None))


def _counts(most: float) -> Axis:
    """From 0 to a whole number of replicas, both marked."""
    return Axis.at(0.0, max(float(ceil(most - ROUNDING)), 1.0))


def held_back(record: Record) -> tuple[Span, ...]:
    """Who held the others back, by the waits of each bin; neighbours of one mind are one span."""
    named = list(_culprits(record))
    found, first = [], 0
    for stage, run in groupby(named):
        length = len(list(run))
        share = length / len(named)
        found.append(Span(stage, f"{100 * first / len(named):.2f}%", f"{100 * share:.2f}%", share))
        first += length
    return tuple(found)


def blame(spans: Sequence[Span]) -> dict[Stage | None, float]:
    """Who held the others back -> share of the whole time, the most first; None: nobody did, or nothing is known."""
    shares: dict[Stage | None, float] = {}
    for span in spans:
        shares[span.stage] = shares.get(span.stage, 0.0) + span.share
    return dict(sorted(shares.items(), key=lambda one: -one[1]))


def _culprits(record: Record) -> Iterator[Stage | None]:
    shares = state_shares(record)
    weights = replicas(record)
    for index in range(record.grid.count):
        graph = {}
        for stage in Stage:
            spent: dict[str, float] = {}
            for slot in (slot for slot in shares if slot[0] is stage):
                weight = weights[slot][index] or 0.0 if slot in weights else 0.0
                for state, values in shares[slot].items():
                    spent[state] = spent.get(state, 0.0) + (values[index] or 0.0) * weight
            total = sum(spent.values())
            graph[stage] = Waits({state: value / total for state, value in spent.items()} if total > 0 else {})
        yield held_back_by(graph)


@dataclass(frozen=True)
class Mark:
    """A decision on the axis of time."""

    move: Move
    left: str
    x: float


def marks(record: Record, moves: Sequence[Move]) -> tuple[Mark, ...]:
    """The moves that were applied inside the drawing."""
    axis = across(record)
    frame = Frame(axis, Axis.at(0.0, 1.0), 1.0)
    return tuple(
        Mark(move, axis.percent(move.at), frame.x(move.at)) for move in moves if axis.start < move.at <= axis.end
    )


def chart(
    record: Record, name: str, unit: str, lines: Sequence[tuple[str, Values]], top: float | None = None
) -> Chart | None:
    """Lines of one quantity over time, None when none of them has a value. `top`: where its axis ends at least."""
    known = [(label, values) for label, values in lines if any(value is not None for value in values)]
    if not known:
        return None
    largest = max(value for _, values in known for value in values if value is not None)
    frame = Frame(across(record), Axis.to(max(largest, top or 0.0, 1e-3), 3), LINE_HEIGHT)
    middle = [at - record.grid.step / 2 for at in record.grid.instants]
    return Chart(name, unit, frame, tuple((label, frame.line(middle, values)) for label, values in known))
