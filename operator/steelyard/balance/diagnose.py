"""Where the pipeline waits: figures per stage for the status, and the bottleneck with its evidence."""

from __future__ import annotations

from steelyard.api import Stage
from steelyard.balance.backlog import FEEDS
from steelyard.balance.model import Promise
from steelyard.balance.observe import WORKING, Observed, StageWindow
from steelyard.balance.types import Bottleneck, StageEstimate
from steelyard.balance.words import number, percent

DOWNSTREAM = (Stage.SAMPLER, Stage.ENVIRONMENT, Stage.REWARD_SERVER, Stage.TRAINER)


def stage_estimates(observed: Observed, promise: Promise | None) -> dict[Stage, StageEstimate]:
    """What each stage does now; without data every figure is None."""
    return {
        stage: StageEstimate(
            throughput=_throughput(window),
            utilization=_working_share(window),
            capacity=promise.limits.get(stage) if promise else None,
            backlog=backlog(observed, stage),
            wait=window.share("starved"),
            blocked=window.share("blocked", "paced"),
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


def bottleneck(observed: Observed, promise: Promise | None) -> Bottleneck | None:
    """The stage that binds the model; before there is one, the stage that waits least, if any works at all."""
    if promise is not None:
        limit = promise.limits[promise.binding]
        evidence = f"it allows {number(limit)} trajectories/s"
        return Bottleneck(promise.binding, f"{evidence}; {_shares(observed, promise.binding)}")
    waiting = {stage: wait for stage, window in observed.stages.items() if (wait := _waiting_share(window)) is not None}
    working = {stage: wait for stage, wait in waiting.items() if observed.stages[stage].time_in(*WORKING) > 0}
    if not working:
        return None
    least = min(working, key=lambda stage: working[stage])
    return Bottleneck(least, _shares(observed, least))


def _shares(observed: Observed, binding: Stage) -> str:
    """Evidence from the state counters: the stage itself, who waits before it and who waits behind it."""
    parts = [f"{binding} works {_percent(_working_share(observed.stages[binding]))} of its slots' time"]
    inner = _environment_detail(observed.stages[binding]) if binding is Stage.ENVIRONMENT else ""
    position = DOWNSTREAM.index(binding)
    for stage in DOWNSTREAM[:position]:
        blocked = observed.stages[stage].share("blocked", "paced")
        if blocked:
            parts.append(f"{stage} is held up {percent(blocked)}")
    for stage in DOWNSTREAM[position + 1 :]:
        starved = observed.stages[stage].share("starved")
        if starved:
            parts.append(f"{stage} has no input {percent(starved)}")
    depth = backlog(observed, binding)
    if depth is not None and binding in FEEDS:
        parts.append(f"{number(depth)} wait in {FEEDS[binding]}")
    return f"{parts[0]}{inner}" + "".join(f", {part}" for part in parts[1:])


def _environment_detail(window: StageWindow) -> str:
    tools, tokens = window.share("tool"), window.share("tokens")
    return f" ({_percent(tools)} in tools, {_percent(tokens)} waiting for samplers)"


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else percent(share)


def _working_share(window: StageWindow) -> float | None:
    return window.share(*WORKING)


def _waiting_share(window: StageWindow) -> float | None:
    return window.share("starved", "blocked", "paced")


def _throughput(window: StageWindow) -> float | None:
    if window.stage is not Stage.SAMPLER:
        return window.rate()
    rates = [
        pod.engine.tokens.increase(pod.start, pod.end) / pod.span for pod in window.pods if pod.engine and pod.span > 0
    ]
    return sum(rates) if rates else None
