"""The ledger: which groups were trained, by which step, and which are closed. It is stored with the weights it led to.

One checkpoint holds the records of the steps since its parent and the closed set of all time; the records along the
chain of parents are the whole history. Everything here is pure.
"""

from collections.abc import Iterable
from typing import Literal

from steelyard_workers.messages import Frozen, Version

Fate = Literal["trained", "failed", "timeout", "dead"]


class Member(Frozen):
    """What became of one trajectory of a group; only `trained` ones took part in the update."""

    k: int
    attempt: int
    fate: Fate
    policy: Version | None = None


class GroupRecord(Frozen):
    """A group that a step consumed."""

    group: int
    members: tuple[Member, ...]


class StepRecord(Frozen):
    """The groups of one step."""

    epoch: int
    step: int
    groups: tuple[GroupRecord, ...]


class Ledger(Frozen):
    """The ledger as a checkpoint holds it."""

    epoch: int = 0
    step: int = 0
    parent: str | None = None
    """Name of the checkpoint before this one."""
    closed_below: int = 0
    """Every group below this one is closed,"""
    closed: tuple[int, ...] = ()
    """and so are these."""
    steps: tuple[StepRecord, ...] = ()
    """What was trained since the parent."""
    given_up: tuple[int, ...] = ()
    """Groups closed untrained since the parent, for too few good trajectories; the dead letters have them."""
    refed: tuple[tuple[int, int], ...] = ()
    """(group, k) that had been admitted but were found nowhere, since the parent: losses, fed anew."""


class Book:
    """The ledger in memory, ahead of the last commit."""

    def __init__(self, committed: Ledger, epoch: int) -> None:
        self.epoch = epoch
        self.step = committed.step
        self._below = committed.closed_below
        self._closed = set(committed.closed)
        self._steps: list[StepRecord] = []
        self._given_up: list[int] = []
        self._refed: list[tuple[int, int]] = []

    def is_closed(self, group: int) -> bool:
        """Trained or given up."""
        return group < self._below or group in self._closed

    @property
    def high_water(self) -> int:
        """One more than the highest closed group: all below were admitted once."""
        return max(self._closed, default=self._below - 1) + 1

    def open_groups(self, admitted: int) -> list[int]:
        """The groups below `admitted` that are not closed."""
        return [group for group in range(self._below, admitted) if group not in self._closed]

    def train(self, groups: Iterable[GroupRecord]) -> None:
        """One more step, made of these groups."""
        self.step += 1
        record = StepRecord(epoch=self.epoch, step=self.step, groups=tuple(groups))
        self._steps.append(record)
        for group in record.groups:
            self._close(group.group)

    def give_up(self, group: int) -> None:
        """Close a group untrained."""
        self._given_up.append(group)
        self._close(group)

    def refeed(self, group: int, k: int) -> None:
        """An admitted trajectory was found nowhere."""
        self._refed.append((group, k))

    def to_commit(self, parent: str | None) -> Ledger:
        """What a checkpoint made now holds, as the child of `parent`."""
        return Ledger(
            epoch=self.epoch,
            step=self.step,
            parent=parent,
            closed_below=self._below,
            closed=tuple(sorted(self._closed)),
            steps=tuple(self._steps),
            given_up=tuple(self._given_up),
            refed=tuple(self._refed),
        )

    def committed(self) -> None:
        """The checkpoint is the head: what follows belongs to the next."""
        self._steps.clear()
        self._given_up.clear()
        self._refed.clear()

    def _close(self, group: int) -> None:
        if self.is_closed(group):
            raise ValueError(f"group {group} is closed already")
        self._closed.add(group)
        while self._below in self._closed:
            self._closed.discard(self._below)
            self._below += 1
