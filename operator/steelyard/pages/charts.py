"""Axes and drawings as numbers in a view box: the templates only write them down. Gaps stay gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10

WIDTH = 1000.0
"""Units of the drawings' view box; pages scale them."""

Point = tuple[float, float]
MINUTE, HOUR, DAY = 60, 3600, 86400
TIME_STEPS = (1, 2, 5, 10, 15, 30, *(m * MINUTE for m in (1, 2, 5, 10, 15, 30)), *(h * HOUR for h in (1, 2, 3, 6, 12)))


@dataclass(frozen=True)
class Mark:
    """One label on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """From `start` to `end`, with its marks."""

    start: float
    end: float
    marks: tuple[Mark, ...]

    @classmethod
    def to(cls, largest: float, most_marks: int = 5) -> Axis:
        """From 0 to a round number."""
        rough = max(largest, 1e-9) / most_marks
        power = 10 ** floor(log10(rough))
        step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
        count = ceil(largest / step - 1e-9)
        return cls.at(*(round(index * step, 10) for index in range(count + 1)))

    @classmethod
    def at(cls, *marks: float) -> Axis:
        """From the first to the last of these marks."""
        return cls(marks[0], marks[-1], tuple(Mark(mark, f"{mark:g}") for mark in marks))

    @classmethod
    def time(cls, start: float, end: float, most_marks: int = 6) -> Axis:
        """Unix seconds, with marks at round times of the day (UTC); the date too where it is midnight."""
        rough = (end - start) / most_marks
        step = next((step for step in TIME_STEPS if step >= rough), ceil(rough / DAY) * DAY)
        marks = (index * step for index in range(ceil(start / step), floor(end / step) + 1))
        return cls(start, end, tuple(Mark(float(at), _time(at, step)) for at in marks))

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the start, 1 at the end."""
        return (value - self.start) / (self.end - self.start) if self.end > self.start else 0.0

    def percent(self, value: float) -> str:
        return f"{100 * self.share(value):.2f}%"


def _time(at: float, step: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if at % DAY == 0:
        return f"{moment:%-d %b}"
    return f"{moment:%H:%M:%S}" if step < MINUTE else f"{moment:%H:%M}"


@dataclass(frozen=True)
class Frame:
    """Where two quantities lie in a drawing of WIDTH by `height`."""

    across: Axis
    up: Axis
    height: float

    def x(self, value: float) -> float:
        return round(WIDTH * self.across.share(value), 1)

    def y(self, value: float) -> float:
        return round(self.height * (1 - self.up.share(value)), 1)

    def path(self, points: Iterable[Point]) -> str:
        return " ".join(f"{self.x(across):g},{self.y(up):g}" for across, up in points)

    def line(self, across: Sequence[float], up: Sequence[float | None]) -> tuple[str, ...]:
        """One polyline for each stretch without a gap; a lone value becomes a short dash."""
        found = []
        for first, last in stretches(up):
            points = [(across[index], value) for index in range(first, last) if (value := up[index]) is not None]
            if len(points) == 1:
                (at, value), half = points[0], (self.across.end - self.across.start) / 400
                points = [(at - half, value), (at + half, value)]
            found.append(self.path(points))
        return tuple(found)

    def stack(self, edges: Sequence[float], layers: Sequence[Sequence[float | None]]) -> list[tuple[str, ...]]:
        """Stacked steps: for each layer its polygons, one for each stretch in which it has a value above zero and every
        other one is known.

        Value i holds from edges[i] to edges[i + 1].
        """
        known = [all(one is not None for one in column) for column in zip(*layers, strict=True)]
        below = [0.0] * len(known)
        found = []
        for layer in layers:
            above = [base + (value or 0.0) for base, value in zip(below, layer, strict=True)]
            shown = [value if value and sure else None for value, sure in zip(layer, known, strict=True)]
            shapes = (
                self.path(_outline(edges[first : last + 1], above[first:last], below[first:last]))
                for first, last in stretches(shown)
            )
            found.append(tuple(shapes))
            below = above
        return found


def stretches(values: Sequence[float | None]) -> Iterator[tuple[int, int]]:
    """(first, one after last) of every run of known values."""
    first = None
    for index, value in enumerate((*values, None)):
        if value is not None and first is None:
            first = index
        elif value is None and first is not None:
            yield first, index
            first = None


def steps(edges: Sequence[float], values: Sequence[float]) -> Iterator[Point]:
    """The corners of a staircase: value i from edges[i] to edges[i + 1]; equal neighbours share a tread."""
    for index, value in enumerate(values):
        if index == 0 or value != values[index - 1]:
            yield edges[index], value
        if index == len(values) - 1 or value != values[index + 1]:
            yield edges[index + 1], value


def _outline(edges: Sequence[float], above: Sequence[float], below: Sequence[float]) -> list[Point]:
    return [*steps(edges, above), *reversed(list(steps(edges, below)))]
