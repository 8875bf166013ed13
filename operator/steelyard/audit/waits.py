"""Who waited for whom over the whole span, and which wait was the biggest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.api import Stage
from steelyard.audit.gputime import STAGES, GpuTime
from steelyard.audit.record import Record, Values
from steelyard.balance.backlog import FEEDS
from steelyard.balance.diagnose.waits import WaitGraph, Waits, held_back_by, shares_of

TOOLS, WEIGHTS = "tools", "weights"

WAITS_FOR: Mapping[tuple[Stage, str], tuple[str, str]] = {
    (Stage.SAMPLER, "starved"): (Stage.ENVIRONMENT, "has no request"),
    (Stage.SAMPLER, "sync"): (WEIGHTS, "takes over weights"),
    (Stage.ENVIRONMENT, "tokens"): (Stage.SAMPLER, "waits for tokens"),
    (Stage.ENVIRONMENT, "tool"): (TOOLS, "waits for tools"),
    (Stage.ENVIRONMENT, "starved"): (Stage.TRAINER, "has no task"),
    (Stage.ENVIRONMENT, "paced"): (Stage.TRAINER, "may not begin: admission is closed"),
    (Stage.ENVIRONMENT, "blocked"): (Stage.REWARD_SERVER, "finds the trajectories' buffer full"),
    (Stage.REWARD_SERVER, "starved"): (Stage.ENVIRONMENT, "has no trajectory to score"),
    (Stage.REWARD_SERVER, "blocked"): (Stage.TRAINER, "finds the experience's buffer full"),
    (Stage.TRAINER, "starved"): (Stage.REWARD_SERVER, "has no batch of experience"),
    (Stage.TRAINER, "blocked"): (Stage.ENVIRONMENT, "finds the tasks' buffer full"),
    (Stage.TRAINER, "sync"): (WEIGHTS, "publishes weights and checkpoints"),
}
"""(waiter, state) -> whom it waits for, and that in words."""


@dataclass(frozen=True)
class Wait:
    """One edge of the wait graph."""

    waiter: Stage
    state: str
    target: str
    """A stage, `tools` or `weights`."""
    words: str
    share: float
    """Of the waiter's slot time, 0..1."""
    gpu_hours: float | None
    """What the waiter's GPUs did meanwhile: nothing. None when the waiter has none, or they are not known."""


def graph(record: Record) -> WaitGraph:
    """Shares of slot time over the span, as the balance reads them; without data a stage has none."""
    slots: dict[Stage, dict[str, float]] = {stage: {} for stage in Stage}
    for total in record.totals.get("seconds", ()):
        stage = STAGES.get(total.labels.get("stage", ""))
        if stage is not None and total.value > 0:
            state = total.labels.get("state", "")
            slots[stage][state] = slots[stage].get(state, 0.0) + total.value
    return {
        stage: Waits(
            {state: spent / sum(seconds.values()) for state, spent in seconds.items()},
            mean(record.one("buffers", buffer=FEEDS[stage])) if stage in FEEDS else mean(record.one("waiting")),
        )
        for stage, seconds in slots.items()
    }


def edges(waits: WaitGraph, time: GpuTime | None) -> tuple[Wait, ...]:
    """Every wait that was seen, those that cost most GPU-hours first, then those with the largest share."""
    found = []
    for (stage, state), (target, words) in WAITS_FOR.items():
        share = waits[stage].shares.get(state, 0.0)
        if share > 0:
            hours = time.hours.get(stage, {}).get(state) if time else None
            found.append(Wait(stage, state, target, words, share, hours))
    return tuple(sorted(found, key=lambda wait: (-(wait.gpu_hours or 0.0), -wait.share)))


def biggest(waits: tuple[Wait, ...]) -> Wait | None:
    """The wait that cost most GPU-hours; where no GPU waited or none is known, the largest share of a stage's time."""
    costly = [wait for wait in waits if wait.gpu_hours]
    if costly:
        return costly[0]
    return max(waits, key=lambda wait: wait.share, default=None)


def held_back(waits: WaitGraph) -> tuple[Stage, str] | None:
    """The stage that the waits of the whole span point at, with the figures that say so."""
    stage = held_back_by(waits)
    return None if stage is None else (stage, shares_of(waits, stage))


def mean(values: Values) -> float | None:
    """Of what is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
