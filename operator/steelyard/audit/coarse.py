"""The same record on a grid that a drawing can show: the mean of what is known in each bin."""

from __future__ import annotations

from dataclasses import replace

from steelyard.audit.record import Grid, Line, Record, Values

MOST_BINS = 240


def coarse(record: Record, most: int = MOST_BINS) -> Record:
    """At most so many instants. A bin in which nothing was measured stays unknown; a last, shorter one goes with it."""
    width = -(-record.grid.count // most)
    if width <= 1:
        return record
    count = record.grid.count // width
    step = record.grid.step * width
    grid = Grid(record.grid.start + step - record.grid.step, step, count)
    lines = {
        figure: tuple(Line(line.labels, _binned(line.values, width, count)) for line in found)
        for figure, found in record.lines.items()
    }
    return replace(record, grid=grid, lines=lines)


def _binned(values: Values, width: int, count: int) -> Values:
    return tuple(_mean(values[index * width : (index + 1) * width]) for index in range(count))


def _mean(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
