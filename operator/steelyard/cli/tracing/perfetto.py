"""Trajectories as Chrome trace events, which ui.perfetto.dev and chrome://tracing open. Pure.

A stage is a process, a pod one or more of its threads: work that overlaps lies in lanes side by side, since events of
one thread must nest. Arrows lead a trajectory from stage to stage; counters show how many each stage has in hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from steelyard.api.names import Stage
from steelyard.cli.tracing.story import Story
from steelyard_workers.spans import Span

Event = dict[str, Any]
Thread = tuple[int, int]
"""pid and tid."""

MICROSECONDS = 1e6
ORDER = [Stage.ENVIRONMENT.value, Stage.REWARD_SERVER.value, Stage.TRAINER.value]
"""The stages that work on trajectories one after the other; what samplers do is part of an episode."""


def trace_events(told: Sequence[Story], job: str) -> dict[str, Any]:
    """The document. Its times are microseconds since the first dispatch."""
    zero = min((story.start for story in told), default=0.0)
    threads, names = _lanes([span for story in told for span in story.outermost])
    events: list[Event] = [*names]
    for number, story in enumerate(told, start=1):
        for outer in story.outermost:
            events += [_complete(span, threads[outer.id], zero) for span in (outer, *story.children(outer))]
        events += _arrows(story, number, threads, zero)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"job": job, "startUnixSeconds": zero},
        "traceEvents": [*events, *_in_hand(told, zero)],
    }


def _lanes(outermost: Sequence[Span]) -> tuple[dict[str, Thread], list[Event]]:
    """The thread of each outermost span, and the names of processes and threads."""
    threads: dict[str, Thread] = {}
    ends: dict[tuple[str, str], list[float]] = {}
    numbers: dict[tuple[str, str, int], int] = {}
    stages = [*ORDER, *sorted({span.stage for span in outermost} - set(ORDER))]
    for span in sorted(outermost, key=lambda span: (span.start, span.id)):
        busy = ends.setdefault((span.stage, span.pod), [])
        lane = next((place for place, end in enumerate(busy) if end <= span.start), len(busy))
        busy[lane : lane + 1] = [span.end]
        tid = numbers.setdefault((span.stage, span.pod, lane), len(numbers) + 1)
        threads[span.id] = (stages.index(span.stage) + 1, tid)
    names = [_name("process_name", (pid, 0), stage) for pid, stage in enumerate(stages, start=1)]
    for (stage, pod, lane), tid in numbers.items():
        names.append(_name("thread_name", (stages.index(stage) + 1, tid), f"{pod} #{lane + 1}" if lane else pod))
    return threads, names


def _name(what: str, thread: Thread, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": thread[0], "tid": thread[1], "args": {"name": name}}


def _at(time: float, zero: float) -> int:
    return round((time - zero) * MICROSECONDS)


def _complete(span: Span, thread: Thread, zero: float) -> Event:
    return {
        "ph": "X",
        "name": span.name,
        "cat": "failed" if span.failed else span.stage,
        "pid": thread[0],
        "tid": thread[1],
        "ts": _at(span.start, zero),
        "dur": round(span.seconds * MICROSECONDS),
        "args": {"trajectory": span.trajectory, "waited_seconds": span.waited, **span.about},
    }


def _arrows(story: Story, number: int, threads: dict[str, Thread], zero: float) -> Iterator[Event]:
    """From the end of each outermost span to the beginning of the next."""
    for place, (before, after) in enumerate(pairwise(story.outermost)):
        arrow = {"name": story.id, "cat": "trajectory", "id": number * 100 + place}
        (pid, tid), (to_pid, to_tid) = threads[before.id], threads[after.id]
        yield {**arrow, "ph": "s", "pid": pid, "tid": tid, "ts": max(_at(before.end, zero) - 1, 0)}
        yield {**arrow, "ph": "f", "bp": "e", "pid": to_pid, "tid": to_tid, "ts": _at(after.start, zero)}


def _in_hand(told: Sequence[Story], zero: float) -> Iterator[Event]:
    """How many trajectories each stage works on, at every change."""
    changes = [
        (time, span.stage, by)
        for story in told
        for span in story.outermost
        for time, by in ((span.start, 1), (span.end, -1))
    ]
    count: dict[str, int] = {}
    for time, stage, by in sorted(changes):
        count[stage] = count.get(stage, 0) + by
        pid = ORDER.index(stage) + 1 if stage in ORDER else len(ORDER) + 1
        yield {"ph": "C", "name": "in hand", "pid": pid, "ts": _at(time, zero), "args": {"trajectories": count[stage]}}
