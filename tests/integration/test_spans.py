"""Spans on a real bus: what workers write is what `steelyard trace` reads, of one trajectory or of a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.local import Pipeline, free_port, pipeline
from steelyard.cli.tracing.story import Share, stories
from steelyard_workers.bus import Bus
from steelyard_workers.config import JobConfig
from steelyard_workers.messages import TrajectoryId
from steelyard_workers.spans import Unreadable, read
from steelyard_workers.trace import BusSpans, Tracer

MANY = 1200
"""More than one fetch of the reader brings."""
AT_ONCE = 50
"""Few enough that none is dropped because a busy bus did not take it in time."""


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Pipeline]:
    with pipeline(tmp_path) as parts:
        parts.start("bus")
        yield parts


def tracer(spans: BusSpans, stage: str) -> Tracer:
    return Tracer(job="calculator", job_uid="u", stage=stage, pod=f"{stage}-0", sample_percent=100, spans=spans)


async def write(parts: Pipeline, *ids: TrajectoryId) -> None:
    job = JobConfig.load(parts.folder / "job.json")
    async with Bus.connected(parts.nats_url, job, "test") as bus:
        for begin in range(0, len(ids), AT_ONCE):
            await _write(bus, ids[begin : begin + AT_ONCE])


async def _write(bus: Bus, ids: Sequence[TrajectoryId]) -> None:
    spans = BusSpans()
    async with spans.exporting(bus.publish):
        for id_ in ids:
            with tracer(spans, "environment").follow(id_, "episode", queued_seconds=0.25) as episode:
                with episode.waiting(), episode.step("generate", turn=0) as turn, turn.waiting():
                    await asyncio.sleep(0)
                episode.note(outcome="ok")
            with tracer(spans, "reward-server").follow(id_, "score") as score:
                score.note(reward=0.5)
            await asyncio.sleep(0)


def one(group: int, k: int = 0, attempt: int = 0) -> TrajectoryId:
    return TrajectoryId(group=group, k=k, attempt=attempt)


async def test_a_trajectory_is_read_whole_and_no_other(parts: Pipeline) -> None:
    await write(parts, one(1), one(1, 1), one(12), one(1, 0, 1))
    for asked, want in (("1/0/0", ["1/0/0"]), ("1/0", ["1/0/0", "1/0/1"]), ("1", ["1/0/0", "1/1/0", "1/0/1"])):
        window = await read(parts.nats_url, "calculator", asked, None, 100)
        assert [story.id for story in stories(window.spans)] == want
    (story,) = stories((await read(parts.nats_url, "calculator", "12/0/0", None, 100)).spans)
    assert (story.outcome, story.note("score", "reward")) == ("waits for the trainer", 0.5)
    assert story.shares[Share.TASKS] == pytest.approx(0.25)
    assert [child.name for child in story.children(story.outermost[0])] == ["generate"]


async def test_of_many_those_of_a_time_are_read_and_no_more_than_asked_for(parts: Pipeline) -> None:
    await write(parts, *(one(group) for group in range(MANY // 2)))
    now = datetime.now(UTC)
    recent = await read(parts.nats_url, "calculator", None, now - timedelta(minutes=1), 10 * MANY)
    assert (len(stories(recent.spans)), recent.left_out) == (MANY // 2, 0)
    few = await read(parts.nats_url, "calculator", None, now - timedelta(minutes=1), 700)
    assert few.left_out == MANY - 700
    assert (await read(parts.nats_url, "calculator", None, now + timedelta(minutes=1), MANY)).spans == ()


async def test_reading_leaves_nothing_behind_and_takes_nothing_away(parts: Pipeline) -> None:
    await write(parts, one(3))
    first = await read(parts.nats_url, "calculator", "3", None, 10)
    assert await read(parts.nats_url, "calculator", "3", None, 10) == first


async def test_a_bus_without_workers_and_no_bus_are_told_apart(parts: Pipeline) -> None:
    with pytest.raises(Unreadable, match="no worker has connected"):
        await read(parts.nats_url, "calculator", None, None, 10)
    with pytest.raises(Unreadable, match="cannot be reached"):
        await read(f"nats://127.0.0.1:{free_port()}", "calculator", None, None, 10)
