"""What runs at all: a job starts and resumes from its bus outwards and stops towards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.api import Stage
from steelyard.children.common import Slot

STOP_ORDER: tuple[tuple[Stage, ...], ...] = (
    (Stage.ENVIRONMENT,),
    (Stage.REWARD_SERVER, Stage.SAMPLER),
    (Stage.TRAINER,),
)
"""Episodes are handed back while samplers still answer; the trainer commits while the bus still runs."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What the rollout shall reach now."""

    replicas: Mapping[Slot, int]
    bus: int


def running(wanted: Mapping[Slot, int], desired: Mapping[Slot, int], *, bus_ready: bool) -> Goal:
    """The allocation; while the bus is away nothing is added, and what runs waits for it."""
    if bus_ready:
        return Goal(dict(wanted), bus=1)
    return Goal({slot: min(n, desired.get(slot, 0)) for slot, n in wanted.items()}, bus=1)


def stopping(desired: Mapping[Slot, int], pods: Mapping[Stage, int], bus: int) -> Goal:
    """Towards nothing, in the stop order: a group goes when no pod of the groups before it is left.

    `desired` are the replicas asked for now, `pods` the pods of each stage that have not ended, `bus` its replicas now.
    """
    for group in STOP_ORDER:
        present = any(
            pods.get(stage, 0) or any(n for slot, n in desired.items() if slot[0] is stage) for stage in group
        )
        if present:
            later = STOP_ORDER[STOP_ORDER.index(group) + 1 :]
            kept = {stage for stages in later for stage in stages}
            return Goal({slot: n if slot[0] in kept else 0 for slot, n in desired.items()}, bus)
    return Goal(dict.fromkeys(desired, 0), bus=0)
