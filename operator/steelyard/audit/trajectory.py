"""What one trajectory went through on its way from a task to a training step, and how long each part took."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.audit.histogram import Spread, spread, values_of
from steelyard.audit.record import Record
from steelyard.balance.backlog import FEEDS


@dataclass(frozen=True)
class Part:
    """One stretch of the way."""

    name: str
    words: str
    seconds: float | None
    """Mean for one trajectory. None where it was not measured."""
    spread: Spread
    """How single observations of it are spread, where a histogram tells: of a call, a score, a step."""
    unit: str
    """What one observation is."""
    waits: bool = False
    """Whether nothing is done meanwhile."""


def way(record: Record) -> tuple[Part, ...]:
    """The parts in their order."""
    ended = record.total("units", stage="environment")

    def slot_seconds(state: str) -> float | None:
        spent = record.total("seconds", stage="environment", state=state)
        return spent / ended if spent is not None and ended else None

    def buffer(name: str) -> Part:
        seen = spread(record, "buffer_wait", buffer=name)
        return Part(f"in {name}", f"waits in the buffer of {name}", seen.mean, seen, "message", waits=True)

    tasks, trajectories, experience = FEEDS.values()
    reward, step = spread(record, "service", stage="reward-server"), spread(record, "train_step")
    return (
        buffer(tasks),
        Part("sampling", "the policy writes, queueing at the samplers included", slot_seconds("tokens"), Spread(0), ""),
        Part("tools", "tools answer", slot_seconds("tool"), spread(record, "tools"), "call"),
        Part("episode", "the environment's own work", slot_seconds("busy"), Spread(0), ""),
        Part("held up", "finds the buffer behind it full", slot_seconds("blocked"), Spread(0), "", waits=True),
        buffer(trajectories),
        Part("reward", "is scored", reward.mean, reward, "score"),
        buffer(experience),
        Part("train step", "the step that learns from it, with its whole batch", step.mean, step, "step"),
    )


@dataclass(frozen=True)
class Tool:
    """One tool and how its calls ended."""

    name: str
    calls: float
    failed: float
    """Calls that failed or ran out of time."""
    spread: Spread


def tools(record: Record) -> tuple[Tool, ...]:
    """Every tool that was called, the most called first."""
    return tuple(
        Tool(
            name,
            seen.count,
            sum(record.total("tools_count", tool=name, outcome=outcome) or 0.0 for outcome in ("failed", "timeout")),
            seen,
        )
        for name in values_of(record, "tools", "tool")
        if (seen := spread(record, "tools", tool=name))
    )
