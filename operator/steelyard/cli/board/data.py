"""What the dashboard shows: jobs and their ledgers as they are now, and how they went since it was opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from steelyard.api import AllocationRevision, Origin, Stage
from steelyard.api.names import LABEL_JOB
from steelyard.balance.ledger import completed
from steelyard.cli.jobs import Job, number, parse
from steelyard.cli.session import Session, told
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import ClusterError

KEPT = 720
"""Samples of each job: an hour at one every five seconds."""
FRESH_SECONDS = 2.0
"""Several pages that are open share one look at the cluster."""


@dataclass(frozen=True)
class Sample:
    """The figures of a job at one moment, None where the operator knew none."""

    at: float
    throughput: float | None
    utilization: Mapping[Stage, float | None]
    backlog: Mapping[Stage, float | None]


def sample(job: Job, at: float) -> Sample:
    return Sample(
        at,
        number(job.throughput),
        {stage: number(figures.utilization) for stage, figures in job.stages.items()},
        {stage: number(figures.backlog) for stage, figures in job.stages.items()},
    )


@dataclass(frozen=True)
class Ledger:
    """The entries of a job, newest first, or why there are none to show."""

    revisions: tuple[AllocationRevision, ...] = ()
    unreadable: str | None = None

    def held(self, now: datetime) -> AllocationRevision | None:
        """The user's hold that is in force."""
        newest = self.revisions[0] if self.revisions else None
        if newest is None or newest.spec.origin is not Origin.USER:
            return None
        return newest if newest.spec.expires_at is None or newest.spec.expires_at > now else None


@dataclass
class Board:
    """Reads with the user's rights, at most every FRESH_SECONDS however many ask."""

    session: Session
    namespace: str | None
    """All when None."""
    clock: Callable[[], float]
    _lock: Lock = field(default_factory=Lock)
    _looked: float = float("-inf")
    _jobs: tuple[Job, ...] = ()
    _history: dict[tuple[str, str], deque[Sample]] = field(default_factory=dict)

    def jobs(self) -> tuple[Job, ...]:
        """Every job, by name. Raises ClusterError."""
        with self._lock:
            now = self.clock()
            if now - self._looked >= FRESH_SECONDS:
                found = [parse(obj) for obj in self.session.kubectl.objects(kinds.JOB, self.namespace)]
                self._jobs = tuple(sorted(found, key=lambda job: (job.namespace, job.name)))
                self._looked = now
                for job in self._jobs:
                    self._history.setdefault((job.namespace, job.name), deque(maxlen=KEPT)).append(sample(job, now))
            return self._jobs

    def history(self, job: Job) -> Sequence[Sample]:
        """Its samples since the dashboard was opened, oldest first."""
        with self._lock:
            return tuple(self._history.get((job.namespace, job.name), ()))

    def ledger(self, job: Job) -> Ledger:
        """What was decided for it; a viewer may lack the right to read it."""
        try:
            objects = self.session.kubectl.objects(kinds.REVISION, job.namespace, selector=f"{LABEL_JOB}={job.name}")
        except ClusterError as error:
            return Ledger(unreadable=told(error))
        entries, _ = records.ledger(objects)
        return Ledger(tuple(reversed(completed(entries))))
