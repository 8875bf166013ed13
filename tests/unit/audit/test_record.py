"""A record survives being written; what is malformed is named; gaps of a range query stay gaps."""

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from steelyard.audit import record as records
from steelyard.audit.document import figures
from steelyard.audit.record import Grid, Line, on, read
from steelyard.audit.report import audit
from steelyard.twin.recording import Malformed
from tests.builders import a_revision
from tests.unit.audit.builders import a_line, a_record, replicas
from tests.unit.audit.simulated import recorded


def written(of: records.Record) -> dict[str, Any]:
    return {"items": [figures(audit(of))]}


def test_an_audit_of_its_own_json_is_the_same_audit() -> None:
    record = recorded()
    assert audit(read(json.dumps(written(record))), 2.5) == audit(record, 2.5)


def test_the_json_keeps_the_newest_windows_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded()
    monkeypatch.setattr(records, "MOST_SAMPLES", 12_000)
    kept = read(json.dumps(written(record))).windows
    assert 0 < len(kept) < len(record.windows)
    assert kept == record.windows[-len(kept) :]


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], Any]:
    def damage(document: dict[str, Any]) -> None:
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = to

    return damage


RECORD = ("items", 0, "record")
MALFORMED = {
    "another document": (_set("items", to=[]), "items\\[0\\].record: missing"),
    "a job that the API would refuse": (
        _set(*RECORD, "job", "spec", "algorithm", "maxStaleness", to=-1),
        "job.spec.algorithm.maxStaleness",
    ),
    "a line of another grid": (_set(*RECORD, "grid", "count", to=9), "lines.replicas: the grid has 9 instants"),
    "an end before its start": (_set(*RECORD, "end", to=0), "span no time"),
    "a value in words": (_set(*RECORD, "lines", "replicas", 0, "values", 0, to="many"), r"values\[0\]: \"many\""),
    "a number in words": (_set(*RECORD, "lines", "replicas", 0, "values", 0, to="NaN"), r"values\[0\]: \"NaN\""),
    "no number": (_set(*RECORD, "lines", "replicas", 0, "values", 0, to=nan), "NaN is no finite number"),
    "an endless number": (_set(*RECORD, "start", to=inf), "Infinity is no finite number"),
    "a time that is none": (_set(*RECORD, "end", to=1e300), "span no time"),
    "a grid without end": (_set(*RECORD, "grid", "count", to=10**9), "must lie between 1 and 11000"),
    "a revision without a name": (
        _set(*RECORD, "revisions", to=[a_revision(1).to_dict() | {"metadata": {}}]),
        "record.revisions: metadata.name: every revision must have one",
    ),
    "a bucket without a bound": (
        _set(*RECORD, "totals", "tools_bucket", to=[{"labels": {"le": "long"}, "value": 1.0}]),
        "totals.tools_bucket: the label le of a bucket must be a number",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_malformed_is_named(case: str) -> None:
    damage, words = MALFORMED[case]
    document = written(a_record({"replicas": [replicas([1] * 4)]}))
    damage(document)
    with pytest.raises(Malformed, match=words):
        read(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[]", '"report"', "null", "<html>"])
def test_what_is_no_report_is_no_report(text: str) -> None:
    with pytest.raises(Malformed):
        read(text)


def test_samples_lie_on_the_grid_and_gaps_are_unknown() -> None:
    grid = Grid(100.0, 15.0, 5)
    assert on(grid, [(100.0, 1.0), (130.0, 0.0), (145.0, nan), (160.0, inf)]) == (1.0, None, 0.0, None, None)


def test_what_nobody_measured_has_no_figure() -> None:
    record = a_record({"buffers": [a_line([1, 2, 3, 4], buffer="tasks")]})
    assert record.one("buffers", buffer="experience") == (None,) * 4
    assert record.total("units", stage="trainer") is None
    assert replace(record, lines={"x": (Line({}, (1.0,)),)}).of("y") == ()
