"""What a router that knew every length could do: several TP sizes side by side, each serving a range of lengths.

Longest first, a class of n engines of one TP size takes a contiguous range of the batch, shared freely between its n:
`seconds >= max(sum(W) / n, sum(V) / n + step * longest)`. For given seconds the fewest GPUs are found exactly, by a
frontier of (GPUs used, furthest position reached) that grows TP size by TP size; the seconds are then bisected. That
ranges in order of generated length suffice is checked against mixed-integer programs over all assignments, not proved:
prompts that differ much beside short outputs can cost about 0.1 %. Whole trajectories may cost one or two GPUs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.coldstart.lengths import Floats, Lengths
from steelyard.balance.coldstart.rollout import Engine, costs, longest_of

GROUPS = 512
"""Groups of equal mass that the batch is cut into, however long the history."""
PRECISION = 2e-4
MIXTURES = (0.0, 0.5, 1.0)
FIRST_STRIDE = 1.01
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Classes:
    """A batch in groups, longest first, against the engines, largest first. Shapes (engines,) and (engines, groups)."""

    tp: NDArray[np.int64]
    step: Floats
    time: Floats
    """W of each group."""
    work: Floats
    """V of each group."""
    longest: Floats
    """Longest generated length in a group and all after it; shape (groups,)."""

    @property
    def groups(self) -> int:
        return len(self.longest)


def classes(lengths: Lengths, engines: Sequence[Engine], batch: int) -> Classes:
    """The batch as groups that do not depend on how full the history is."""
    ordered = sorted(engines, key=lambda engine: -engine.tp)
    each = [costs(lengths, engine) for engine in ordered]
    time, work = np.stack([w for w, _ in each]), np.stack([v for _, v in each])
    order = np.argsort(-lengths.generated, kind="stable")
    groups = min(GROUPS, batch)
    edges = np.linspace(0, len(lengths), groups + 1)

    def grouped(values: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(values[order])])
        return np.diff(np.interp(edges, np.arange(len(lengths) + 1), sums)) * batch / len(lengths)

    mean = grouped(lengths.generated) * groups / batch
    longest = np.maximum.accumulate(mean[::-1])[::-1]
    longest[0] = max(longest[0], longest_of(lengths.generated, batch))
    return Classes(
        np.array([engine.tp for engine in ordered]),
        np.array([engine.step_seconds for engine in ordered]),
        np.stack([grouped(row) for row in time]),
        np.stack([grouped(row) for row in work]),
        longest,
    )


class Frontier:
    """Answers how few GPUs serve the classes within given seconds."""

    def __init__(self, of: Classes) -> None:
        self._of = of
        zero = np.zeros((len(of.tp), 1))
        self._time = np.concatenate([zero, np.cumsum(of.time, axis=1)], axis=1)
        self._work = np.concatenate([zero, np.cumsum(of.work, axis=1)], axis=1)
        self._tail = of.step[:, None] * np.append(of.longest, 0.0)
        self._positions = np.arange(of.groups + 1.0)

    def fewest(self, seconds: float, budget: int) -> dict[int, int] | None:
        """TP size -> engines of the cheapest layout, None when more than `budget` GPUs are needed."""
        rest = self.bound(seconds)
        gpus, position = np.array([0]), np.array([0.0])
        steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for row in range(len(self._of.tp)):
            parent, count = self._choices(row, gpus, position, seconds, budget)
            gpus, position = gpus[parent] + self._of.tp[row] * count, self._reach(row, position[parent], count, seconds)
            keep = np.flatnonzero(gpus + np.interp(position, self._positions, rest) <= budget + TINY)
            keep = keep[np.lexsort((-position[keep], gpus[keep]))]
            further = np.maximum.accumulate(np.append(-1.0, position[keep]))[:-1] + TINY < position[keep]
            keep = keep[further]
            if not len(keep):
                return None
            steps.append((parent[keep], count[keep]))
            gpus, position = gpus[keep], position[keep]
        if position[-1] < self._of.groups - TINY:
            return None
        return self._trace(steps, int(np.argmax(position >= self._of.groups - TINY)))

    def bound(self, seconds: float) -> Floats:
        """GPUs that the groups from each position on need at least, whatever the assignment; shape (groups + 1,).

        n >= max(a, b) is relaxed to n >= m·a + (1 - m)·b, which adds up over groups.
        """
        slack = seconds - self._tail[:, :-1]
        possible = slack > 0
        alone = np.where(possible, self._of.work / np.where(possible, slack, 1.0), np.inf)
        bounds = []
        for mixture in MIXTURES:
            need = mixture * self._of.time / seconds + (1 - mixture) * np.where(possible, alone, 0.0)
            each = np.where(possible, self._of.tp[:, None] * need, np.inf).min(axis=0)
            bounds.append(np.cumsum(each[::-1])[::-1])
        return np.append(np.max(bounds, axis=0), 0.0)

    def _choices(
        self, row: int, gpus: NDArray[np.int64], position: Floats, seconds: float, budget: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(state, engines of this class) pairs worth trying: within the budget, and no more than finish the batch."""
        slack = self._slack(row, position, seconds)
        time = self._time[row, -1] - np.interp(position, self._positions, self._time[row])
        work = self._work[row, -1] - np.interp(position, self._positions, self._work[row])
        finish = np.ceil(np.maximum(time / seconds, work / np.maximum(slack, TINY)) - TINY)
        most = np.minimum((budget - gpus) // self._of.tp[row], np.where(slack > 0, finish, 0)).astype(np.int64)
        counts = most + 1
        parent = np.repeat(np.arange(len(gpus)), counts)
        return parent, np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)

    def _slack(self, row: int, position: Floats, seconds: float) -> Floats:
        tail: Floats = self._tail[row][position.astype(int)]
        return seconds - tail

    def _reach(self, row: int, start: Floats, count: NDArray[np.int64], seconds: float) -> Floats:
        """The position that `count` engines of a class reach from `start`."""
        slack = np.maximum(self._slack(row, start, seconds), 0.0)
        time, work = self._time[row], self._work[row]
        by_time = np.interp(np.interp(start, self._positions, time) + count * seconds, time, self._positions)
        by_work = np.interp(np.interp(start, self._positions, work) + count * slack, work, self._positions)
        return np.where(count > 0, np.minimum(by_time, by_work), start)

    def _trace(self, steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]], state: int) -> dict[int, int]:
        layout = {}
        for tp, (parent, count) in zip(self._of.tp[::-1], reversed(steps), strict=True):
            layout[int(tp)] = int(count[state])
            state = int(parent[state])
        return {tp: count for tp, count in layout.items() if count}


@dataclass(frozen=True, slots=True)
class Mixed:
    """A layout of several TP sizes, for a router that knows lengths."""

    samplers: Mapping[int, int]
    """TP size -> replicas."""
    seconds: float


def mixed(of: Classes, envelope: Floats, gpus: int) -> Mixed | None:
    """The best layout and its seconds within `gpus`, beside the training that `envelope` gives for what is left.

    Bisection over seconds: both the training's and the sampling's need of GPUs fall as seconds rise.
    """
    frontier = Frontier(of)

    def left(seconds: float) -> int:
        """GPUs that training leaves when it may take `seconds`."""
        enough = envelope <= seconds
        return gpus - int(np.argmax(enough)) if enough.any() else 0

    low, high = 0.0, float(envelope[gpus - 1])
    if not np.isfinite(high):
        return None
    while frontier.bound(high)[0] > left(high):
        low, high = high, 2 * high
    while high > low * (1 + PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if frontier.bound(middle)[0] <= left(middle) else (middle, high)
    stride, high = FIRST_STRIDE, low
    while (found := frontier.fewest(high, left(high))) is None:
        low, high, stride = high, high * stride, stride * stride
    best = Mixed(found, high)
    while best.seconds > low * (1 + PRECISION):
        middle = (low + best.seconds) / 2
        found = frontier.fewest(middle, left(middle))
        if found is None:
            low = middle
        else:
            best = Mixed(found, middle)
    return best
