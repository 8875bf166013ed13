"""Groups on the trainer's side: complete when every member is scored or dead, handed over lowest number first."""

from __future__ import annotations

from heapq import heappop, heappush

from steelyard.twin.flow import Group, Trajectory

LEAST_TRAINABLE = 2
"""A group with fewer is given up: an advantage needs something to compare with."""


class Experience:
    """Scored trajectories until a step takes their groups."""

    def __init__(self) -> None:
        self._complete: list[tuple[int, Group]] = []
        self.waiting = 0
        """Scored trajectories that no step has taken."""

    def add(self, one: Trajectory) -> Group | None:
        """A trajectory came back scored, or dead; returns its group when too few of it lived: it is given up."""
        group = one.group
        group.missing -= 1
        if one.draw.fails:
            group.failed += 1
        else:
            group.trainable.append(one)
            self.waiting += 1
        if group.missing:
            return None
        if len(group.trainable) < LEAST_TRAINABLE:
            self.waiting -= len(group.trainable)
            return group
        heappush(self._complete, (group.number, group))
        return None

    def give_back(self, groups: list[Group]) -> None:
        """The step that took them came to nothing."""
        for group in groups:
            heappush(self._complete, (group.number, group))
            self.waiting += len(group.trainable)

    def too_old(self, step: int, max_staleness: int) -> list[Trajectory]:
        """Take out of the complete groups what is more than `max_staleness` versions behind."""
        found = []
        for _, group in self._complete:
            old = [one for one in group.trainable if step - one.version > max_staleness]
            if old:
                group.trainable = [one for one in group.trainable if one not in old]
                group.missing += len(old)
                self.waiting -= len(old)
                found += old
        if found:
            self._complete = sorted(entry for entry in self._complete if not entry[1].missing)
        return found

    def take(self, count: int) -> list[Group] | None:
        """So many complete groups, None when there are fewer."""
        if len(self._complete) < count:
            return None
        groups = [heappop(self._complete)[1] for _ in range(count)]
        self.waiting -= sum(len(group.trainable) for group in groups)
        return groups
