"""One policy on one profile from the first step to the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from steelyard.api import Allocation, AllocationRevision
from steelyard.balance.types import Decision, Instant
from steelyard.twin.engine import Pipeline
from steelyard.twin.profiles import Profile


class Policy(Protocol):
    """Decides on the allocation while the pipeline runs."""

    @property
    def interval_seconds(self) -> float:
        """Simulated seconds between two calls of `decide`; infinite when it never decides."""

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        """The allocation to apply now, None to change nothing."""


@dataclass(frozen=True)
class Change:
    """An allocation that was applied."""

    at: Instant
    step: int
    allocation: Allocation


@dataclass(frozen=True)
class Run:
    """What became of one run."""

    profile: Profile
    seed: int
    started: Instant
    step_ends: tuple[Instant, ...]
    trained: int
    gpu_hours: float
    changes: tuple[Change, ...]
    """The first allocation and every change."""
    moves: int
    """Replicas, or blocks of the trainer's GPUs, started by the changes."""
    events: int

    @property
    def seconds(self) -> float:
        return self.step_ends[-1] - self.started

    @property
    def throughput(self) -> float:
        """Trajectories trained per second."""
        return self.trained / self.seconds


def run(profile: Profile, policy: Policy, seed: int, allocation: Allocation | None = None) -> Run:
    """Run the profile to its end, from `allocation` (else where its job starts)."""
    raise NotImplementedError


class Steelyard:
    """The operator's own balance, its ledger kept exactly as the controller keeps it."""

    revisions: list[AllocationRevision]
    decisions: list[tuple[Instant, Decision]]
    """Every decision that differs from the one before in action or kind."""

    @property
    def interval_seconds(self) -> float:
        raise NotImplementedError

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        raise NotImplementedError
