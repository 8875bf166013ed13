"""From the replicas that are to those that shall be, without ever holding more GPUs than the budget.

Terminating pods hold theirs. So capacity goes down first and comes up as GPUs are really free; a stage that changes its
GPU profile does so pod by pod, the next one starting when the old one is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from steelyard.api import Stage
from steelyard.children.common import Slot


@dataclass(frozen=True, slots=True)
class Workload:
    """One stage and profile as it is."""

    desired: int = 0
    """Replicas its workload object asks for."""
    caught_up: bool = True
    """Whether its controller has seen that number."""
    created: int = 0
    """Pods its controller says exist, which may be more than we have seen."""
    alive: int = 0
    """Pods that neither ended nor are terminating."""
    ready: int = 0
    terminating: int = 0

    @property
    def still(self) -> bool:
        """Everything asked for is there and works, nothing is going away."""
        return self.caught_up and not self.terminating and self.alive == self.ready == self.desired


def rollout(
    target: Mapping[Slot, int],
    now: Mapping[Slot, Workload],
    prices: Mapping[Slot, Fraction],
    budget: Fraction,
    held: Fraction,
) -> dict[Slot, int]:
    """Replicas to ask for now; calling it again as pods come and go reaches `target`.

    `held` is what all pods of the job that have not ended hold, whatever the spec says about them by now.
    """
    steps = _Steps(target, now, prices)
    for slot in now:
        steps.lower_what_serves_nobody(slot)
    # While a controller has not seen its last number it may be making pods that nobody has seen: nothing is free then.
    free = budget - held - steps.promised() if steps.all_seen() else Fraction(0)
    for slot in sorted(now, key=_from_the_end):
        free -= steps.raise_as_far_as(free, slot)
    for stage in Stage:
        steps.exchange(stage)
    return steps.replicas


def _from_the_end(slot: Slot) -> tuple[int, str]:
    """The trainer first: without it nothing upstream is worth anything."""
    stage, profile = slot
    return -list(Stage).index(stage), profile


class _Steps:
    """The replicas of one call while they are worked out."""

    def __init__(
        self, target: Mapping[Slot, int], now: Mapping[Slot, Workload], prices: Mapping[Slot, Fraction]
    ) -> None:
        self.replicas = {slot: workload.desired for slot, workload in now.items()}
        self._target, self._now, self._prices = target, now, prices
        self._lowered = False

    def promised(self) -> Fraction:
        """GPUs of pods that were asked for and are not seen yet."""
        return sum((self._coming(slot) * self._prices[slot] for slot in self._now), Fraction(0))

    def all_seen(self) -> bool:
        return all(workload.caught_up for slot, workload in self._now.items() if self._prices[slot])

    def lower_what_serves_nobody(self, slot: Slot) -> None:
        """A stage's surplus goes at once, and so do replicas of an unwanted profile that are not ready."""
        over = self._over(slot)
        unready = self._now[slot].desired - self._now[slot].ready
        self._lower(slot, min(over, max(self._asked(slot[0]) - self._wanted(slot[0]), unready)))

    def raise_as_far_as(self, free: Fraction, slot: Slot) -> Fraction:
        """Raise within what is free and within the stage's total; returns the GPUs this takes."""
        stage = slot[0]
        missing = min(self._target.get(slot, 0) - self.replicas[slot], self._wanted(stage) - self._asked(stage))
        if missing <= 0:
            return Fraction(0)
        price = self._prices[slot]
        n = missing if not price else max(0, min(missing, free // price))
        self.replicas[slot] += n
        return n * price

    def exchange(self, stage: Stage) -> None:
        """Give up one working replica of an unwanted profile when nothing else can bring the stage on."""
        mine = [slot for slot in self._now if slot[0] is stage]
        if not all(self._now[slot].still and self.replicas[slot] == self._now[slot].desired for slot in mine):
            return
        short = self._asked(stage) < self._wanted(stage)
        if short and (self._lowered or any(workload.terminating for workload in self._now.values())):
            return  # GPUs are on their way
        for slot in mine:
            if self._over(slot) > 0:
                self._lower(slot, 1)
                return

    def _lower(self, slot: Slot, n: int) -> None:
        if n > 0:
            self.replicas[slot] -= n
            self._lowered = True

    def _over(self, slot: Slot) -> int:
        return self.replicas[slot] - self._target.get(slot, 0)

    def _coming(self, slot: Slot) -> int:
        workload = self._now[slot]
        return max(0, max(workload.desired, workload.created) - workload.alive)

    def _asked(self, stage: Stage) -> int:
        return sum(n for slot, n in self.replicas.items() if slot[0] is stage)

    def _wanted(self, stage: Stage) -> int:
        return sum(n for slot, n in self._target.items() if slot[0] is stage)
