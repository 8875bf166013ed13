"""What an audit is made of: the job, its ledger, what was measured of it over a span of time, and what was not there.

`steelyard audit` reads one from a cluster and its Prometheus, or from the JSON that it wrote before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan

from pydantic import TypeAdapter, ValidationError

from steelyard.api import AgenticRLJob, AllocationRevision
from steelyard.api.base import explain
from steelyard.balance.types import Instant
from steelyard.twin.recording import Malformed, Window

Values = tuple[float | None, ...]

LATEST = 253_402_300_799
"""The end of the year 9999, the last that can be written as a date."""
MOST_INSTANTS = 11_000
"""More than Prometheus answers at once."""
MOST_SAMPLES = 60_000
"""Raw samples in the JSON, about twenty bytes each."""


@dataclass(frozen=True)
class Grid:
    """The instants at which lines have values: `start`, then every `step` seconds, `count` of them.

    A value at t is about the seconds before t.
    """

    start: Instant
    step: float
    count: int

    @property
    def instants(self) -> Iterator[Instant]:
        return (self.start + index * self.step for index in range(self.count))

    @property
    def end(self) -> Instant:
        return self.start + (self.count - 1) * self.step


@dataclass(frozen=True)
class Line:
    """One figure over the grid; None where nothing was measured, which is not zero."""

    labels: Mapping[str, str]
    values: Values

    def label(self, name: str) -> str:
        return self.labels.get(name, "")


@dataclass(frozen=True)
class Total:
    """One figure of the whole span."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Record:
    """Frozen: every figure of a report follows from this alone."""

    name: str
    namespace: str
    start: Instant
    end: Instant
    grid: Grid
    made_by: str = ""
    """Version of the program that read it."""
    job: AgenticRLJob | None = None
    """None when it is gone, or may not be read."""
    revisions: tuple[AllocationRevision, ...] = ()
    """Its ledger, oldest first."""
    lines: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    """Figure (see `queries`) -> its lines over the grid."""
    totals: Mapping[str, tuple[Total, ...]] = field(default_factory=dict)
    """Figure -> its totals over the span."""
    windows: tuple[Window, ...] = ()
    """Raw samples of a few short windows, oldest first: what the balance itself would have looked at."""
    missing: tuple[str, ...] = ()
    """What could not be read and why, a sentence each."""

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def of(self, figure: str, **labels: str) -> tuple[Line, ...]:
        """The lines of `figure` whose labels match."""
        return tuple(line for line in self.lines.get(figure, ()) if _matches(line.labels, labels))

    def one(self, figure: str, **labels: str) -> Values:
        """The values of the one such line, all None when there is none."""
        found = self.of(figure, **labels)
        return found[0].values if found else (None,) * self.grid.count

    def total(self, figure: str, **labels: str) -> float | None:
        """The sum of the totals whose labels match, None when there is none."""
        found = [total.value for total in self.totals.get(figure, ()) if _matches(total.labels, labels)]
        return sum(found) if found else None


def _matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def on(grid: Grid, samples: Sequence[tuple[Instant, float]]) -> Values:
    """Samples of a range query on the grid they were asked for; gaps and NaN are None."""
    values: list[float | None] = [None] * grid.count
    for at, value in samples:
        index = round((at - grid.start) / grid.step)
        if 0 <= index < grid.count and isfinite(value):
            values[index] = float(f"{value:.5g}")  # what a chart or a share can use; the JSON stays small
    return tuple(values)


_FORMAT = TypeAdapter(Record)


def read(text: str | bytes) -> Record:
    """The record inside a report's JSON (`-o json`). Raises Malformed."""
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
        record = _FORMAT.validate_json(json.dumps(document["items"][0]["record"]), strict=True)
    except ValidationError as error:
        raise Malformed(explain(error)) from error
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from error
    except (LookupError, TypeError) as error:
        raise Malformed("items[0].record: missing; this is not the JSON of `steelyard audit -o json`") from error
    grid = record.grid
    times = [record.start, record.end, grid.start, *(at for one in record.windows for at in (one.start, one.end))]
    if not record.start < record.end or grid.step <= 0 or not all(0 <= at <= LATEST for at in times):
        raise Malformed("record: start, end, grid and windows span no time")
    if not 1 <= grid.count <= MOST_INSTANTS or grid.end > LATEST:
        raise Malformed(f"record.grid.count: {grid.count} must lie between 1 and {MOST_INSTANTS}")
    if not all(one.metadata.name for one in record.revisions):
        raise Malformed("record.revisions: metadata.name: every revision must have one")
    for figure, lines in record.lines.items():
        if any(len(one.values) != grid.count for one in lines):
            raise Malformed(f"record.lines.{figure}: the grid has {grid.count} instants, a line must too")
    for figure, totals in record.totals.items():
        if figure.endswith("_bucket") and not all(_is_number(one.labels.get("le")) for one in totals):
            raise Malformed(f"record.totals.{figure}: the label le of a bucket must be a number")
    return record


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and not isnan(float(text))
    except ValueError:
        return False


def write(record: Record) -> object:
    """The record as plain JSON values. Of the raw windows the newest are kept, as far as `MOST_SAMPLES` reach."""
    kept: list[Window] = []
    samples = 0
    for window in reversed(record.windows):
        samples += sum(
            len(one.samples) for pods in window.rates.samples.values() for all_ in pods.values() for one in all_
        )
        if samples <= MOST_SAMPLES:
            kept.insert(0, window)
    return _FORMAT.dump_python(replace(record, windows=tuple(kept)), mode="json", by_alias=True)
