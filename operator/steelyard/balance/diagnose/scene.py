"""All that the symptoms are read from: one window, who waits for whom in it, and what the nodes tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.api import AgenticRLJobSpec, Stage
from steelyard.balance.diagnose.waits import WaitGraph
from steelyard.balance.observe import EngineWindow, Observed, PodWindow
from steelyard.balance.surroundings import Surroundings


@dataclass(frozen=True)
class Scene:
    """Frozen: every symptom is a function of this alone."""

    observed: Observed
    graph: WaitGraph
    around: Surroundings
    spec: AgenticRLJobSpec

    def pods(self, stage: Stage) -> tuple[PodWindow, ...]:
        return self.observed.stages[stage].pods

    @property
    def engines(self) -> list[EngineWindow]:
        return [pod.engine for pod in self.pods(Stage.SAMPLER) if pod.engine]

    @property
    def open_bound(self) -> int:
        """Most trajectories between admission and training."""
        return (self.spec.algorithm.max_staleness + 1) * self.spec.algorithm.batch

    def stage_of(self, pod: str) -> Stage | None:
        """The stage that a pod with metrics belongs to; None for the bus and for strangers."""
        return next(
            (s for s, window in self.observed.stages.items() if any(p.pod.name == pod for p in window.pods)), None
        )


def together(levels: Iterable[float | None]) -> float | None:
    """Their sum, as far as they are known; None when none is."""
    known = [level for level in levels if level is not None]
    return sum(known) if known else None


def mean(levels: Iterable[float | None]) -> float | None:
    """Their mean, as far as they are known; None when none is."""
    known = [level for level in levels if level is not None]
    return sum(known) / len(known) if known else None
