"""Replicas as Kubernetes and Prometheus see them; what each stage's replicas do is in `stages` and `sampler`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from steelyard.api import Stage
from steelyard.balance.observe import MOST_SCRAPES

Columns = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""(metric, labels) of each figure in a scrape."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One stage since the start: exact, cumulative, dead replicas included; baselines are granted them."""

    busy_seconds: float = 0.0
    """Slot seconds that held a unit: for a sampler, running sequences; for the trainer, training."""
    occupied_seconds: float = 0.0
    """Replica seconds, each times the share in use of what limits the replica: its slots, or its KV cache."""
    duty_seconds: float = 0.0
    """Replica seconds with at least one busy slot: what GPU utilisation shows."""
    replica_seconds: float = 0.0
    """Seconds of ready replicas."""
    gpu_seconds: float = 0.0
    """Of every pod that exists: starting and draining ones hold theirs."""
    queue: int = 0
    """Units that wait for the stage at this moment: requests, tasks, trajectories, scored trajectories."""
    serving: int = 0
    """Units in the hands of its replicas at this moment."""
    ready: int = 0
    """Replicas that serve at this moment."""

    def __add__(self, other: Meter) -> Meter:
        return Meter(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class Pod(ABC):
    """One replica from its creation until it is gone."""

    stage: Stage
    columns: Columns

    def __init__(self, name: str, profile: str, gpus: int, ordinal: int, created: float) -> None:
        self.name, self.profile, self.gpus, self.ordinal, self.created = name, profile, gpus, ordinal, created
        self.ready_since: float | None = None
        self.terminating = False
        self.gone = False
        self.lives = 0
        """Times its container was started; events of an earlier life mean nothing."""
        self.duty_seconds = 0.0
        self.scrapes: deque[tuple[float, ...]] = deque(maxlen=MOST_SCRAPES)
        """(instant, figure of each column)."""

    @property
    def serves(self) -> bool:
        """Ready and not going away: it gets new work."""
        return self.ready_since is not None and not self.terminating

    def start(self, now: float) -> None:
        """Ready, with counters at zero."""
        self.ready_since = now
        self.lives += 1

    @property
    @abstractmethod
    def inflight(self) -> int:
        """Units bound to it now."""

    @abstractmethod
    def figures(self, now: float) -> tuple[float, ...]:
        """What a scrape finds, in the order of `columns`."""

    @abstractmethod
    def meter(self, now: float) -> Meter:
        """Exact figures of this life."""

    def alive_seconds(self, now: float) -> float:
        return now - self.ready_since if self.ready_since is not None else 0.0


class Slots:
    """How many slots are in one state, and the slot seconds spent in it: n·now less the instants at which they came."""

    __slots__ = ("_since", "n")

    def __init__(self) -> None:
        self.n = 0
        self._since = 0.0

    def enter(self, now: float) -> None:
        self.n += 1
        self._since += now

    def leave(self, now: float) -> None:
        self.n -= 1
        self._since -= now

    def seconds(self, now: float) -> float:
        return self.n * now - self._since
