"""What waits in front of each stage: the depth of its buffer less what is already in somebody's hands."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.balance.counter import Gauge, gauge
from steelyard.balance.types import Instant, Rates, Seen

FEEDS = {Stage.ENVIRONMENT: "tasks", Stage.REWARD_SERVER: "trajectories", Stage.TRAINER: "experience"}
"""The buffer in front of each stage."""

BACKLOG_SAMPLES = 30
"""So many samples of a buffer's depth say enough about its mean."""


def bus_pod(seen: Seen) -> str:
    """The pod that tells the depth of the buffers."""
    return f"{seen.job.metadata.name}-bus-0"


def backlogs(seen: Seen, rates: Rates, since: Instant, until: Instant) -> dict[Stage, Gauge]:
    """Messages stay in a buffer until they are acknowledged: by environment and reward server when a unit is done, by
    the trainer when a checkpoint commits its steps."""
    depths = rates.series(signals.BUFFER_DEPTH, bus_pod(seen))
    found = {}
    for stage, buffer in FEEDS.items():
        depth = gauge(depths, since, until, buffer=buffer)
        few = depth.samples[:: len(depth.samples) // BACKLOG_SAMPLES + 1]
        pods = [pod.name for pod in seen.pods() if pod.stage is stage]
        metric = signals.POLICY_VERSION if stage is Stage.TRAINER else signals.STAGE_INFLIGHT
        gauges = [gauge(rates.series(metric, pod), since, until) for pod in pods]
        found[stage] = Gauge(tuple((at, max(value - _in_hand(seen, stage, gauges, at), 0.0)) for at, value in few))
    return found


def _in_hand(seen: Seen, stage: Stage, gauges: Sequence[Gauge], at: Instant) -> float:
    levels = [one.near(at) or 0.0 for one in gauges]
    if stage is not Stage.TRAINER:
        return sum(levels)
    spec = seen.job.spec
    return max(levels, default=0.0) % spec.checkpoints.every_steps * spec.algorithm.batch
