"""What flows through the simulated pipeline: trajectories and their groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.twin.workload import Draw

if TYPE_CHECKING:
    from steelyard.twin.stages import EnvironmentPod

UNBORN = -1
"""Policy version of a trajectory without a token."""


@dataclass(slots=True, eq=False)
class Group:
    """Trajectories of one prompt. They are trained together."""

    number: int
    missing: int
    """Members that are still on their way."""
    trainable: list[Trajectory] = field(default_factory=list)
    failed: int = 0


@dataclass(slots=True, eq=False)
class Trajectory:
    """One attempt at a task, from admission to training."""

    index: int
    group: Group
    draw: Draw
    factor: float
    """By how much the policy at its start writes longer than the first."""
    attempt: int = 0
    turn: int = 0
    context: float = 0.0
    """Tokens before the present turn."""
    generated: float = 0.0
    """Tokens generated in the turns that have ended."""
    wanted: float = 0.0
    """Tokens that the present turn will generate."""
    need: float = 0.0
    """Live tokens of the present turn: its context and, on average over the turn, half of what it generates."""
    version: int = UNBORN
    """Policy version of the first token."""
    pod: EnvironmentPod | None = None
    lost: bool = False
    """Its replica died or handed it back: another object carries on, events of this one mean nothing."""

    def anew(self) -> Trajectory:
        """The same attempt from its start, for a redelivered task."""
        return Trajectory(self.index, self.group, self.draw, self.factor, self.attempt)
