"""An audit as one HTML file: inline SVG, no script, nothing fetched from anywhere, a table beside each drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.api import Stage
from steelyard.audit.coarse import coarse
from steelyard.audit.drawings import STATE_WORDS, STATES, Chart, blame, chart, edges, held_back, lanes, marks
from steelyard.audit.gputime import kind, unpriced
from steelyard.audit.histogram import spread
from steelyard.audit.pictures import arrows, gpu_bars, nodes, tool_ranges, way_bar
from steelyard.audit.record import Record, Values
from steelyard.audit.report import Audit, questions, verdict
from steelyard.audit.settings import settings, yaml_of
from steelyard.audit.waits import mean
from steelyard.balance.backlog import FEEDS
from steelyard.pages import templates

PRESSURES = {
    "io_waiting": "some task waits for storage",
    "io_stalled": "no task can go on for lack of storage",
    "memory_waiting": "waits for memory of the node",
    "cpu_waiting": "waits for CPU",
    "device_memory": "device memory in use",
}


def page(of: Audit, document: str) -> str:
    """The whole report, with the JSON `document` of the same figures inside."""
    drawn = coarse(of.record)
    ranges, axis = tool_ranges(of.tools)
    spans, trained = held_back(drawn), _trained(drawn)
    return templates("steelyard.audit").get_template("audit.html.j2").render(
        of=of,
        record=of.record,
        verdict=verdict(of),
        questions=questions(of),
        lanes=lanes(drawn),
        marks=marks(drawn, of.moves),
        edges=edges(drawn),
        held_back=spans,
        blame=blame(spans),
        throughput=chart(drawn, "trained", "trajectories a second", [("trained", trained)]),
        trained=trained,
        states=STATES,
        words=STATE_WORDS,
        kind=kind,
        way=way_bar(of.way),
        interval=spread(of.record, "step_interval"),
        ranges=ranges,
        range_axis=axis,
        nodes=nodes(of.waits, of.edges),
        arrows=arrows(of.edges, of.biggest),
        queues=tuple(_queues(drawn)),
        learning=tuple(_learning(drawn)),
        pressure=tuple(_pressure(of.record)),
        claims=_claims(of.record),
        unread=[words for figure, words in PRESSURES.items() if not of.record.of(figure)],
        unpriced=unpriced(of.record),
        gpu_bars=gpu_bars(of.time) if of.time else (),
        largest=max((figure for one in of.moves for figure in (one.before, one.after) if figure), default=1.0),
        bounds_yaml=yaml_of(of.bounds),
        settings=settings(of),
        json=document.replace("<", "\\u003c"),  # no tag may begin in it
        mean=mean,
        most=_most,
    )  # fmt: skip


def _trained(record: Record) -> Values:
    return record.one("units", stage=Stage.TRAINER.value, outcome="ok")


def _queues(record: Record) -> Iterator[tuple[Chart, Mapping[str, Any]]]:
    """The depth of each buffer, with what it could hold and how old its messages were when they were taken."""
    for buffer in FEEDS.values():
        depth, room = record.one("buffers", buffer=buffer), record.total("capacity", buffer=buffer)
        drawn = chart(record, buffer, "messages", [(buffer, depth)])
        if drawn is not None:
            waited = spread(record, "buffer_wait", buffer=buffer)
            yield drawn, {"mean": mean(depth), "most": _most(depth), "capacity": room, "wait": waited}


def _learning(record: Record) -> Iterator[tuple[Chart, Mapping[str, Any]]]:
    for figure, name, unit in (
        ("staleness", "staleness", "versions behind when trained"),
        ("reward", "reward", "mean of a trajectory"),
        ("kv_usage", "KV cache", "share in use"),
        ("generated", "tokens", "generated a second"),
    ):
        values = record.one(figure)
        drawn = chart(record, name, unit, [(name, values)], top=1.0 if figure == "kv_usage" else None)
        if drawn is not None:
            yield drawn, {"mean": mean(values), "most": _most(values)}


def _pressure(record: Record) -> Iterator[tuple[str, str, float | None, float | None]]:
    """(what, stage, mean, most) of every pressure that an exporter told about, the worst first."""
    rows = [
        (words, line.label("stage"), mean(line.values), _most(line.values))
        for figure, words in PRESSURES.items()
        for line in record.of(figure)
        if mean(line.values) is not None
    ]
    return iter(sorted(rows, key=lambda row: -(row[3] or 0.0)))


def _claims(record: Record) -> list[tuple[str, float | None, float | None]]:
    """(claim, how full it was last, and at most)."""
    return [
        (line.label("persistentvolumeclaim"), _last(line.values), _most(line.values)) for line in record.of("claims")
    ]


def _last(values: Values) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _most(values: Values) -> float | None:
    return max((value for value in values if value is not None), default=None)
