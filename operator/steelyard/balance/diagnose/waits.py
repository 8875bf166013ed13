"""Who waits for whom: figures per stage for the status, and the stage that holds the others back, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.api import Stage
from steelyard.balance.backlog import FEEDS
from steelyard.balance.model import Promise
from steelyard.balance.observe import WORKING, Observed, StageWindow
from steelyard.balance.types import Bottleneck, StageEstimate
from steelyard.balance.words import number, percent

DOWNSTREAM = (Stage.SAMPLER, Stage.ENVIRONMENT, Stage.REWARD_SERVER, Stage.TRAINER)
WAITING = ("starved", "blocked", "paced")
OUTSIDE = ("busy", "tool")
"""What an episode does outside the samplers."""
NOTICEABLE = 0.05
"""A share of slot time that says that somebody waits."""
SHORT_QUEUE = 4.0
"""So few units say nothing by their trend."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How one stage spent its slots' time, and the queue in front of it."""

    shares: Mapping[str, float]
    """State -> share of slot time; they sum to 1, or none is there without data."""
    backlog: float | None = None
    """Trajectories that wait in front of the stage, mean over the window."""
    growth: float | None = None
    """By how many they grew from the first half of the window to the second."""

    def share(self, *states: str) -> float | None:
        return min(sum(self.shares.get(state, 0.0) for state in states), 1.0) if self.shares else None

    @property
    def working(self) -> float | None:
        return self.share(*WORKING)

    @property
    def starved(self) -> float:
        """0 also without data: nobody is seen to starve."""
        return self.shares.get("starved", 0.0)

    @property
    def held_up(self) -> float:
        return self.shares.get("blocked", 0.0) + self.shares.get("paced", 0.0)

    @property
    def drains(self) -> bool:
        """Whether the queue fell to a third, so that its length is the past's doing."""
        if self.backlog is None or self.growth is None:
            return False
        return self.backlog >= SHORT_QUEUE and self.growth <= -self.backlog


WaitGraph = Mapping[Stage, Waits]


def wait_graph(observed: Observed) -> dict[Stage, Waits]:
    """The waits of every stage, from the state counters and the buffers."""
    return {
        stage: Waits(
            window.shares(),
            backlog(observed, stage),
            observed.backlogs[stage].growth if stage in observed.backlogs else None,
        )
        for stage, window in observed.stages.items()
    }


def backlog(observed: Observed, stage: Stage) -> float | None:
    """Trajectories waiting in front of a stage, mean over the window; for samplers the requests not running yet."""
    if stage in FEEDS:
        return observed.backlogs[stage].mean if stage in observed.backlogs else None
    waiting = [pod.engine.waiting.mean for pod in observed.stages[stage].pods if pod.engine]
    known = [one for one in waiting if one is not None]
    return sum(known) if known else None


def stage_estimates(observed: Observed, graph: WaitGraph, promise: Promise | None) -> dict[Stage, StageEstimate]:
    """What each stage does now; without data every figure is None."""
    return {
        stage: StageEstimate(
            throughput=_throughput(observed.stages[stage]),
            utilization=waits.working,
            capacity=promise.limits.get(stage) if promise else None,
            backlog=waits.backlog,
            wait=waits.share("starved"),
            blocked=waits.share("blocked", "paced"),
        )
        for stage, waits in graph.items()
    }


def bottleneck(graph: WaitGraph, promise: Promise | None) -> Bottleneck | None:
    """The stage that binds the model, and whom the waits point at if that is another; without a model the latter."""
    pointed = held_back_by(graph)
    if promise is None:
        return Bottleneck(pointed, shares_of(graph, pointed)) if pointed else None
    limit = promise.limits[promise.binding]
    evidence = f"it allows {number(limit)} trajectories/s; {shares_of(graph, promise.binding)}"
    if pointed is not None and pointed is not promise.binding:
        evidence += f"; the waits alone would point at {pointed}"
    return Bottleneck(promise.binding, evidence)


def held_back_by(graph: WaitGraph) -> Stage | None:
    """The stage that waits least, when others wait for it and its queue agrees; None when the waits name nobody.

    Environment and samplers are one station: their loop is closed. Its slots' waits are the environment's; where its
    time goes, into tools or into tokens, says which of the two it is.
    """
    stations = [stage for stage in DOWNSTREAM[1:] if graph[stage].shares]
    least = min(stations, key=lambda stage: graph[stage].share(*WAITING) or 0.0, default=None)
    if least is None or (graph[least].working or 0.0) <= (graph[least].share(*WAITING) or 0.0):
        return None
    if not _waited_for(graph, least) or graph[least].drains:
        return None
    if least is Stage.ENVIRONMENT and (graph[least].share("tokens") or 0.0) > (graph[least].share(*OUTSIDE) or 0.0):
        return Stage.SAMPLER
    return least


def _waited_for(graph: WaitGraph, stage: Stage) -> bool:
    position = DOWNSTREAM.index(stage)
    upstream = any(graph[other].held_up >= NOTICEABLE for other in DOWNSTREAM[:position])
    return upstream or any(graph[other].starved >= NOTICEABLE for other in DOWNSTREAM[position + 1 :])


def shares_of(graph: WaitGraph, binding: Stage) -> str:
    """Evidence from the state counters: the stage itself, who waits before it and who waits behind it."""
    waits, position = graph[binding], DOWNSTREAM.index(binding)
    parts = [f"{binding} works {percent_of(waits.working)} of its slots' time"]
    if binding is Stage.ENVIRONMENT:
        tools, tokens = waits.share("tool"), waits.share("tokens")
        parts[0] += f" ({percent_of(tools)} in tools, {percent_of(tokens)} waiting for samplers)"
    parts += [f"{s} is held up {percent(graph[s].held_up)}" for s in DOWNSTREAM[:position] if graph[s].held_up]
    parts += [f"{s} has no input {percent(graph[s].starved)}" for s in DOWNSTREAM[position + 1 :] if graph[s].starved]
    if waits.backlog is not None and binding in FEEDS:
        parts.append(f"{number(waits.backlog)} wait in {FEEDS[binding]}")
    return ", ".join(parts)


def percent_of(share: float | None) -> str:
    return "an unknown share" if share is None else percent(share)


def _throughput(window: StageWindow) -> float | None:
    if window.stage is not Stage.SAMPLER:
        return window.rate()
    rates = [
        pod.engine.tokens.increase(pod.start, pod.end) / pod.span for pod in window.pods if pod.engine and pod.span > 0
    ]
    return sum(rates) if rates else None
