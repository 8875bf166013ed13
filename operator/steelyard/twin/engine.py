"""The simulated pipeline: events in order of time, the cluster's slowness, and what an operator would see of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.balance.types import Instant, Rates, Seen
from steelyard.twin.profiles import Profile

START: Instant = 1_800_000_000.0
"""Where the simulated clock starts."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One stage since the start: exact, cumulative, dead replicas included; baselines are granted them."""

    busy_seconds: float = 0.0
    """Slot seconds that held a unit: for a sampler, running sequences; for the trainer, training."""
    slot_seconds: float = 0.0
    """Slot seconds of ready replicas; a sampler has `max_num_seqs` slots, the trainer one."""
    room_seconds: float = 0.0
    """Like `slot_seconds`, but of a sampler only what its KV cache has room for."""
    duty_seconds: float = 0.0
    """Replica seconds with at least one busy slot: what GPU utilisation shows."""
    replica_seconds: float = 0.0
    """Seconds of ready replicas."""
    gpu_seconds: float = 0.0
    """Of every pod that exists: starting and draining ones hold theirs."""
    queue: int = 0
    """Trajectories that wait for the stage at this moment (samplers: requests)."""
    serving: int = 0
    """Trajectories that it holds at this moment."""
    ready: int = 0
    """Ready replicas at this moment."""


class Pipeline:
    """One job on one simulated cluster. The same arguments give the same run, in any process."""

    now: Instant
    step: int
    """Training steps done."""
    done: bool
    events: int
    """State changes simulated so far."""
    step_ends: list[Instant]
    trained: int
    """Trajectories trained."""

    def __init__(self, profile: Profile, allocation: Allocation, seed: int) -> None:
        raise NotImplementedError

    def run_until(self, instant: Instant) -> None:
        """Simulate up to and including `instant`, or to the end of the last step if that comes first."""
        raise NotImplementedError

    def apply(self, allocation: Allocation) -> None:
        """As the operator applies it: victims drain, what is new starts as GPUs become free (`children.rollout`)."""
        raise NotImplementedError

    @property
    def job(self) -> AgenticRLJob:
        """The job with its status as the operator would have written it."""
        raise NotImplementedError

    @property
    def allocation(self) -> Allocation:
        """What was applied last."""
        raise NotImplementedError

    def seen(self, revisions: Sequence[AllocationRevision]) -> Seen:
        """What the operator's informer would hold."""
        raise NotImplementedError

    def rates(self, window_seconds: float) -> Rates:
        """What Prometheus would answer: scrapes, late and with gaps, never the simulator's truth."""
        raise NotImplementedError

    def meters(self) -> Mapping[Stage, Meter]:
        """Exact figures of each stage so far."""
        raise NotImplementedError
