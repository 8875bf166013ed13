"""The HorizontalPodAutoscaler's algorithm, autoscaling/v2 with its defaults: one stage, in replicas.

Source: Kubernetes documentation, "Horizontal Pod Autoscaling", sections on the algorithm and on scaling behaviour.
Pure; the policies feed it with what they measure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

TOLERANCE = 0.1
SYNC_SECONDS = 15.0
DOWN_WINDOW_SECONDS = 300.0
UP_PODS = 4
"""Within one sync period a stage may double or gain so many pods, whichever is more."""
ROUNDING = 1e-9


def by_pods(replicas: int, metrics: Sequence[float | None], unready: int, target: float) -> int:
    """Desired replicas from one metric of each ready pod (None = missing) and the number of pods that are not ready."""
    known = [value for value in metrics if value is not None]
    if not known:
        return replicas
    missing = len(metrics) - len(known)
    ratio = sum(known) / len(known) / target
    grows = ratio > 1
    if not missing and not (grows and unready):
        return replicas if _close(ratio) else _ceil(ratio * len(known))
    counted = len(known) + missing + (unready if grows else 0)
    adjusted = (sum(known) + (0.0 if grows else missing * target)) / counted / target
    if _close(adjusted) or (adjusted > 1) != grows:
        return replicas
    return _ceil(adjusted * counted)


def by_total(replicas: int, total: float, target_per_pod: float) -> int:
    """Desired replicas from an external metric with an `AverageValue`."""
    return replicas if _close(total / (target_per_pod * replicas)) else _ceil(total / target_per_pod)


@dataclass
class Behavior:
    """The limits between a recommendation and the scale of one stage, with the memory they need."""

    least: int
    most: int
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)

    def scale(self, now: float, replicas: int, recommended: int) -> int:
        """Replicas to ask for now: stabilised downwards, limited upwards, within the bounds."""
        self._recommended.append((now, recommended))
        while self._recommended[0][0] <= now - DOWN_WINDOW_SECONDS:
            self._recommended.popleft()
        highest = max(value for _, value in self._recommended)
        wanted = min(highest, replicas) if recommended < replicas else recommended
        return max(self.least, min(wanted, self.most, max(2 * replicas, replicas + UP_PODS)))


def _close(ratio: float) -> bool:
    return abs(ratio - 1) <= TOLERANCE


def _ceil(pods: float) -> int:
    return ceil(pods - ROUNDING)
