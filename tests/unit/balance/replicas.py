"""What the simulated pipeline is made of: its figures, its pods and the slots in them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from steelyard.api import Stage


@dataclass(frozen=True)
class Setup:
    """What the stages can do."""

    turns: int = 2
    tokens: int = 20
    """Tokens of a turn."""
    tool_seconds: float = 2.0
    alpha: float = 0.02
    beta: float = 0.002
    most: int = 64
    judge_seconds: float = 0.35
    judge_slots: int = 1
    step_seconds: float = 2.0
    sync_seconds: float = 0.3
    start_seconds: float = 3.0
    scrape_seconds: float = 1.0
    spread: float = 0.3
    """Lengths and times vary by so much either way."""
    seed: int = 1
    broken_profiles: frozenset[tuple[Stage, str]] = frozenset()
    """Pods of these never become ready."""
    slow_profiles: frozenset[tuple[Stage, str]] = frozenset()
    """Replicas of these work at a tenth of the speed, whatever the user expected."""


@dataclass
class Slot:
    """One episode of an environment replica, or one judgement of a reward replica."""

    state: str = "starved"
    left: float = 0.0
    turns: int = 0
    sampler: Pod | None = None
    running: bool = False


@dataclass
class Pod:
    """A replica with its counters and what was scraped of them."""

    name: str
    stage: Stage
    profile: str
    gpus: float
    slots: list[Slot]
    created: float
    ready_at: float | None = None
    terminating: bool = False
    queue: list[Slot] = field(default_factory=list)
    syncing: float = 0.0
    counters: dict[tuple[str, str, str], float] = field(default_factory=lambda: defaultdict(float))
    scraped: dict[tuple[str, str, str], list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def ready(self, now: float) -> bool:
        return self.ready_at is not None and now >= self.ready_at

    def add(self, metric: str, amount: float, label: str = "", value: str = "") -> None:
        self.counters[metric, label, value] += amount

    def set(self, metric: str, amount: float, label: str = "", value: str = "") -> None:
        self.counters[metric, label, value] = amount
