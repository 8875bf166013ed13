"""Spans of made-up trajectories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steelyard_workers.spans import Span

ZERO = 1_000_000.0
STAGES = {"episode": "environment", "score": "reward-server", "train": "trainer"}


def span(
    name: str, start: float, end: float, trajectory: str = "12/3/0", parent: str | None = None, **about: Any
) -> Span:
    stage = STAGES.get(name, "environment")
    return Span(
        trajectory=trajectory,
        name=name,
        stage=stage,
        pod=f"{stage}-0",
        id=f"{trajectory}-{name}-{start}",
        parent=parent,
        start=ZERO + start,
        end=ZERO + end,
        failed=about.pop("failed", False),
        waited=about.pop("waited", 0.0),
        worked=about.pop("worked", end - start),
        about=about,
    )


def life(trajectory: str = "12/3/0", at: float = 0.0) -> list[Span]:
    """Dispatched at `at`: 1 s in the queue, 4 s of episode, 2 s of queue, 1 s of reward, 5 s of queue, 2 s of step."""
    episode = span(
        "episode",
        at + 1,
        at + 5,
        trajectory,
        queued_seconds=1.0,
        outcome="ok",
        policy_first="1.4",
        policy_last="1.5",
        waited=3.5,
        worked=0.5,
    )
    return [
        span("train", at + 13, at + 15, trajectory, step=6, staleness=1),
        span("generate", at + 1, at + 3, trajectory, episode.id, turn=0, sampler="10.0.0.7:8000", tokens=64),
        span("tool", at + 3, at + 4, trajectory, episode.id, tool="calculator"),
        span("score", at + 7, at + 8, trajectory, reward=0.75),
        episode,
    ]


def of_step(step: int, at: float, k: int = 0, **about: Any) -> list[Span]:
    """A trajectory that is trained in `step`, dispatched at `at`."""
    lived = life(f"{step}/{k}/0", at)
    return [replace(one, about={**one.about, "step": step, **about}) if one.name == "train" else one for one in lived]
