"""Service demand: slot seconds of work per unit, by the utilisation law, and how sure one window is of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from operator import add

from steelyard.balance.counter import Counter
from steelyard.balance.model import Estimate
from steelyard.balance.observe import WORKING, PodWindow

EDGE_ERROR = 0.5
"""Units that a window cuts in two, on average: with u units the demand is known to about 0.5/u."""
MOST_SLICES = 8


def service_demand(
    pods: tuple[PodWindow, ...], start: float | None = None, end: float | None = None, outcome: str | None = None
) -> Estimate | None:
    """Slot seconds of work per unit (of one outcome or of all) over all `pods`, None when they finished no unit.

    The error comes from batch means over slices of the window, and from the units that the window's edges cut.
    """
    spans = [(pod, pod.start if start is None else start, pod.end if end is None else end) for pod in pods]
    worked = sum(work(pod, a, b) for pod, a, b in spans)
    units = sum(_units(pod, a, b, outcome) for pod, a, b in spans)
    if units <= 0 or worked <= 0:
        return None
    demand = worked / units
    slices = max(min(int(units / 4), MOST_SLICES), 1)
    unexplained = [0.0] * slices
    for pod, a, b in spans:
        edges = [a + (b - a) * index / slices for index in range(slices + 1)]
        for counter in _working(pod):
            unexplained = list(map(add, unexplained, counter.increases(edges)))
        for counter in _finished(pod, outcome):
            unexplained = [
                left - demand * part for left, part in zip(unexplained, counter.increases(edges), strict=True)
            ]
    residual = sum(left**2 for left in unexplained)
    batch_means = sqrt(residual * slices / (slices - 1)) / worked if slices > 1 else 0.0
    return Estimate(demand, min(max(batch_means, EDGE_ERROR / units), 2.0))


def interval_error(intervals: Sequence[tuple[float, float]], scrape_seconds: float) -> float:
    """Relative standard error of seconds per step, from (seconds, steps) between one observed step end and the next.

    Where a step ends is known to a scrape, and to a step where several end between two of them. So each interval has
    the error of a difference of two uniforms (a sixth of the square), and so have all together: only the rest of their
    spread counts for each.
    """
    total, steps = sum(seconds for seconds, _ in intervals), sum(steps for _, steps in intervals)
    blur = min(scrape_seconds, total / steps) ** 2 / 6
    residual = sum((seconds - total / steps * finished) ** 2 for seconds, finished in intervals)
    spread = residual * len(intervals) / max(len(intervals) - 1, 1) - len(intervals) * blur
    return sqrt(max(spread, 0.0) + blur) / total


def explained_by_length(faster: float, longer: float) -> float:
    """The part of a change of speed that a change of the trajectories' length may explain: no slower than by as much as
    they got longer, no faster than by as much as they got shorter."""
    if longer <= 0:
        return 1.0
    return min(max(faster, min(1 / longer, 1.0)), max(1 / longer, 1.0))


def _working(pod: PodWindow) -> list[Counter]:
    return [pod.seconds[state] for state in WORKING if state in pod.seconds]


def _finished(pod: PodWindow, outcome: str | None) -> list[Counter]:
    return [counter for name, counter in pod.units.items() if outcome in (None, name)]


def work(pod: PodWindow, start: float, end: float) -> float:
    """Slot seconds of `pod` that held a unit."""
    return sum(counter.increase(start, end) for counter in _working(pod))


def _units(pod: PodWindow, start: float, end: float, outcome: str | None) -> float:
    return sum(counter.increase(start, end) for counter in _finished(pod, outcome))
