"""Spans of trajectories: joined without carrying context, sampled alike everywhere, never in the way of work."""

import asyncio
import json
import time

import pytest

from steelyard_workers.messages import TrajectoryId
from steelyard_workers.trace import BusSpans, Tracer


def id_(group: int = 12) -> TrajectoryId:
    return TrajectoryId(group=group, k=3, attempt=0)


def tracer(spans: BusSpans, *, pod: str = "environment-0", percent: float = 100) -> Tracer:
    return Tracer(job="calculator", job_uid="u-1", stage="environment", pod=pod, sample_percent=percent, spans=spans)


class Bus:
    """Keeps what is published; `refuse` makes it fail, `hang` makes it never answer."""

    def __init__(self, *, refuse: bool = False, hang: bool = False) -> None:
        self.spans: list[dict[str, object]] = []
        self.subjects: list[str] = []
        self._refuse, self._hang = refuse, hang

    async def publish(self, subject: str, payload: bytes) -> None:
        if self._hang:
            await asyncio.Event().wait()
        if self._refuse:
            raise ConnectionError("the bus is gone")
        self.subjects.append(subject)
        self.spans.extend(json.loads(payload))


async def test_a_trajectory_can_be_followed_through_two_processes() -> None:
    bus, spans = Bus(), BusSpans()
    async with spans.exporting(bus.publish):
        with tracer(spans).follow(id_(), "episode", seed=99) as episode:
            with episode.step("generate", server="10.0.0.7:8000") as turn, turn.waiting():
                await asyncio.sleep(0.02)
            episode.note(policy_first="1.4", policy_last="1.5")
        with tracer(spans, pod="reward-0").follow(id_(), "score"):
            pass
    generate, episode_span, score = bus.spans
    assert bus.subjects == ["spans.calculator.12.3.0"] * 2, "one message from each process"
    assert len({span["traceId"] for span in bus.spans}) == 1
    assert generate["parentId"] == episode_span["spanId"]
    assert [span["pod"] for span in bus.spans] == ["environment-0", "environment-0", "reward-0"]
    assert {span["trajectory"] for span in bus.spans} == {"12/3/0"}
    assert episode_span["group"] == 12
    assert (episode_span["policy_first"], episode_span["policy_last"]) == ("1.4", "1.5")
    assert score["parentId"] == episode_span["parentId"]


async def test_waiting_and_working_are_told_apart() -> None:
    bus, spans = Bus(), BusSpans()
    async with spans.exporting(bus.publish):
        with tracer(spans).follow(id_(), "episode") as episode:
            with episode.waiting():
                await asyncio.sleep(0.05)
            time.sleep(0.02)  # noqa: ASYNC251 - this is the work
    (span,) = bus.spans
    waited, worked = span["waited_seconds"], span["worked_seconds"]
    assert isinstance(waited, float)
    assert isinstance(worked, float)
    assert waited >= 0.05
    assert worked >= 0.02
    assert waited + worked == pytest.approx(float(str(span["end"])) - float(str(span["start"])), abs=0.02)


async def test_a_span_whose_work_failed_says_so_and_is_kept() -> None:
    bus, spans = Bus(), BusSpans()
    async with spans.exporting(bus.publish):
        with pytest.raises(ValueError, match="no answer"), tracer(spans).follow(id_(), "score"):
            raise ValueError("no answer")
    assert bus.spans[0]["status"] == "ERROR"


async def test_every_process_follows_the_same_share_of_the_trajectories() -> None:
    chosen = []
    for pod in ("a", "b"):
        bus, spans = Bus(), BusSpans()
        process = tracer(spans, pod=pod, percent=20)
        async with spans.exporting(bus.publish):
            for group in range(500):
                with process.follow(id_(group), "episode") as episode, episode.step("generate"):
                    pass
        chosen.append(sorted(set(bus.subjects)))
    assert chosen[0] == chosen[1]
    assert 50 < len(chosen[0]) < 150


@pytest.mark.parametrize(("percent", "want"), [(0, 0), (100, 20)])
async def test_nothing_and_everything_are_exact(percent: int, want: int) -> None:
    bus, spans = Bus(), BusSpans()
    async with spans.exporting(bus.publish):
        for group in range(20):
            with tracer(spans, percent=percent).follow(id_(group), "episode"):
                pass
    assert len(bus.spans) == want


@pytest.mark.parametrize("bus", [Bus(refuse=True), Bus(hang=True)], ids=["refuses", "hangs"])
async def test_a_bus_that_fails_costs_spans_and_never_time(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard_workers.trace.PUBLISH_SECONDS", 0.05)
    spans = BusSpans(capacity=10)
    async with spans.exporting(bus.publish):
        start = time.monotonic()
        for group in range(200):
            with tracer(spans).follow(id_(group), "episode"):
                pass
        assert time.monotonic() - start < 5
        await asyncio.sleep(0)
    assert bus.spans == []
    assert spans.dropped >= 190
