"""Assembles groups from deliveries in any order, with copies and retries among them. Pure: it asks no bus and no clock.

A delivery stays held, unacknowledged, from its arrival until the commit of the step that trained it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from steelyard_workers.bus import Delivery
from steelyard_workers.messages import Experience, TrajectoryId
from steelyard_workers.trainer.ledger import Fate, GroupRecord, Member

Held = Delivery[Experience]
LEAST_TRAINABLE = 2  # an advantage needs something to compare with


@dataclass(frozen=True)
class Group:
    """A complete group: every member is here or dead."""

    number: int
    held: tuple[Held, ...]
    dead: tuple[TrajectoryId, ...]

    @property
    def trainable(self) -> tuple[Experience, ...]:
        """The trajectories with something to learn from, by k."""
        return tuple(delivery.message for delivery in self.held if delivery.message.outcome == "ok")

    def record(self) -> GroupRecord:
        """How the ledger remembers it once it is trained."""
        held = [_member(delivery.message) for delivery in self.held]
        dead = [Member(k=id_.k, attempt=id_.attempt, fate="dead") for id_ in self.dead]
        return GroupRecord(group=self.number, members=tuple(sorted(held + dead, key=lambda member: member.k)))


def _member(experience: Experience) -> Member:
    fate: Fate = "trained" if experience.outcome == "ok" else experience.outcome
    return Member(k=experience.id.k, attempt=experience.id.attempt, fate=fate, policy=experience.policy_first)


@dataclass
class _Open:
    held: dict[int, Held] = field(default_factory=dict)
    dead: dict[int, TrajectoryId] = field(default_factory=dict)


class Collector:
    """All groups with at least one member at hand."""

    def __init__(self, group_size: int) -> None:
        self._size = group_size
        self._open: dict[int, _Open] = {}
        self._taken: dict[tuple[int, int], Held] = {}
        self._taken_groups: set[int] = set()

    @property
    def held(self) -> int:
        """How many trajectories are held for steps to come."""
        return sum(len(group.held) for group in self._open.values())

    def offer(self, delivery: Held) -> Held | None:
        """Hold a delivery of an open group; returns the one that is superfluous now, if any.

        The newest attempt of a member wins; of two copies of an attempt the first. A redelivery of what is held
        already (same place in the stream) only replaces the handle: acknowledging it would take the original away.
        """
        id_ = delivery.id
        if id_.group in self._taken_groups:
            taken = self._taken.get(id_.member)
            if taken is None or taken.sequence != delivery.sequence:
                return delivery
            self._taken[id_.member] = delivery
            return None
        group = self._open.setdefault(id_.group, _Open())
        present = group.held.get(id_.k)
        if present is not None and present.sequence != delivery.sequence and present.id.attempt >= id_.attempt:
            return delivery
        group.held[id_.k] = delivery
        group.dead.pop(id_.k, None)
        return present if present is not None and present.sequence != delivery.sequence else None

    def bury(self, id_: TrajectoryId) -> None:
        """A dead letter says that this member comes to nothing, unless it, or a later attempt, is here."""
        if id_.group in self._taken_groups:
            return
        group = self._open.setdefault(id_.group, _Open())
        if id_.k not in group.held:
            group.dead[id_.k] = id_

    def complete(self, groups: Iterable[int]) -> list[Group]:
        """Those of `groups` that are complete, in their order."""
        found = []
        for number in groups:
            group = self._open.get(number)
            if group is not None and len(group.held) + len(group.dead) == self._size:
                held = tuple(group.held[k] for k in sorted(group.held))
                found.append(Group(number, held, tuple(group.dead[k] for k in sorted(group.dead))))
        return found

    def drop(self, delivery: Held) -> None:
        """Hold this one no longer: it was requeued."""
        self._open[delivery.id.group].held.pop(delivery.id.k)

    def forget(self, group: Group) -> None:
        """The group was given up."""
        del self._open[group.number]

    def take(self, group: Group) -> None:
        """The group goes into a step; its deliveries wait for the commit."""
        del self._open[group.number]
        self._taken_groups.add(group.number)
        self._taken.update({delivery.id.member: delivery for delivery in group.held})

    def awaits_commit(self, group: int) -> bool:
        """The group was taken by a step that is not committed yet."""
        return group in self._taken_groups

    def committed(self) -> list[Held]:
        """The steps so far are durable: these may be acknowledged."""
        done = list(self._taken.values())
        self._taken.clear()
        self._taken_groups.clear()
        return done


def stale(group: Group, step: int, max_staleness: int) -> list[Held]:
    """The trainable members of a group whose first token is too many versions behind the weights of `step`."""
    return [
        delivery
        for delivery in group.held
        if delivery.message.outcome == "ok" and lag(delivery.message, step) > max_staleness
    ]


def lag(experience: Experience, step: int) -> int:
    """Versions between the policy that wrote the first token and the weights of `step`.

    Trajectories of versions that a resume took back are not behind: their log-probabilities travel with them.
    """
    return max(0, step - experience.policy_first.step) if experience.policy_first else 0
