"""What goes into the balance and what comes out: frozen values, no behaviour beyond reading them.

`cluster` builds a `Seen`, `metrics` a `Rates`; `balance()` turns both and the time into a `Plan`.
Instants are unix seconds (float), durations are seconds, rates are units per second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from steelyard.api import AgenticRLJob, AllocationRevision, AllocationRevisionStatus, Stage
from steelyard.balance.model import Model

Instant = float
"""Unix seconds. Always passed in, never read from a clock here."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod of a stage, as slim as the balance needs it."""

    name: str
    uid: str
    stage: Stage
    profile: str
    ready: bool
    terminating: bool = False
    created: Instant | None = None
    problem: str | None = None
    """Why it does not become ready, in the cluster's words: `Unschedulable`, `ImagePullBackOff`, `CrashLoopBackOff`."""


@dataclass(frozen=True, slots=True)
class StageCounts:
    """One (stage, profile): what its workload asks for and what is there, counted in pods."""

    desired: int
    """Replicas the workload object asks for at this moment."""
    ready: int
    """Ready and not terminating."""
    pending: int
    """Neither ready nor terminating: unscheduled, pulling, starting or failing."""
    draining: int
    """Terminating. They still hold their GPUs and still finish work."""
    pods: tuple[PodView, ...] = ()
    refused: str | None = None
    """Why the API server lets its workload make no more pods, in its words: a quota, an admission policy."""
    failed: tuple[str, ...] = ()
    """Reasons of pods that ended although they should run: `UnexpectedAdmissionError`, `Evicted`."""


@dataclass(frozen=True)
class Seen:
    """The cluster as one tick sees it."""

    job: AgenticRLJob
    revisions: tuple[AllocationRevision, ...] = ()
    """The job's ledger, oldest first."""
    stages: Mapping[Stage, Mapping[str, StageCounts]] = field(default_factory=dict)
    """Stage -> profile -> counts, from live children and pods; a profile without a workload is absent."""
    held: Mapping[Stage, str] = field(default_factory=dict)
    """Stages that must not be moved, each with the reason (an HPA owns its replicas, say)."""
    quota: Mapping[str, Fraction] = field(default_factory=dict)
    """What the namespace's quotas leave to the job's stages (`hard` less what others use), by the resource that pods
    request: `cpu` in cores, `memory` in bytes. Absent is unknown, and then unbounded."""
    up_since: Mapping[str, Instant] = field(default_factory=dict)
    """Stage or `bus` -> since when at least one of its pods has run without a restart; infinite while none runs."""

    def pods(self) -> Iterator[PodView]:
        for profiles in self.stages.values():
            for counts in profiles.values():
                yield from counts.pods

    @property
    def active(self) -> AllocationRevision | None:
        """The revision children are rendered from: the highest number that is not superseded.

        When all are, the operator died after closing the last one and before recording its successor: it is in force.
        Of two with the same number, which only hands can write, the one that was applied already stays.
        """
        living = [revision for revision in self.revisions if revision.status.phase != "Superseded"]
        return max(living or self.revisions, key=_precedence, default=None)


def _precedence(revision: AllocationRevision) -> tuple[int, bool, str]:
    return revision.spec.number, revision.status.applied_time is not None, revision.metadata.name


@dataclass(frozen=True, slots=True)
class Series:
    """One raw time series of one pod, as scraped: (instant, value), oldest first. Counters are not yet differenced."""

    labels: tuple[tuple[str, str], ...]
    """Sorted (name, value) pairs without namespace, pod and the scrape's own labels."""
    samples: tuple[tuple[Instant, float], ...]

    def label(self, name: str) -> str | None:
        return next((value for key, value in self.labels if key == name), None)


class MetricsProblem(StrEnum):
    """Why the metrics source could not answer; used as the reason of the condition MetricsAvailable."""

    UNREACHABLE = "Unreachable"
    BAD_RESPONSE = "BadResponse"


@dataclass(frozen=True, slots=True)
class MetricsUnavailable:
    """The metrics source itself failed: nothing is known about any pod, which is not the same as zero."""

    problem: MetricsProblem
    message: str


@dataclass(frozen=True)
class Rates:
    """Raw samples of one job's live pods over the last `window_seconds`, straight from the metrics source."""

    window_seconds: float = 0.0
    samples: Mapping[str, Mapping[str, tuple[Series, ...]]] = field(default_factory=dict)
    """Metric name -> pod name -> its series. An absent metric or pod means no data."""
    unavailable: MetricsUnavailable | None = None
    """Set when the source did not answer; `samples` is then empty."""

    def series(self, metric: str, pod: str) -> tuple[Series, ...]:
        return self.samples.get(metric, {}).get(pod, ())


class Action(StrEnum):
    """What this tick decided to do with the allocation."""

    INITIAL = "Initial"
    """Record the first revision."""
    HOLD = "Hold"
    """Change nothing; the reason says why."""
    RECOMMEND = "Recommend"
    """Mode Observe: the move that Dynamic would make."""
    MOVE = "Move"
    """Record a revision with a new allocation."""
    ROLLBACK = "Rollback"
    """Record a revision that restores the parent's allocation."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One line for `status.lastDecisions`: `kind` is stable (no numbers), `reason` is a sentence with numbers."""

    action: Action
    kind: str
    """CamelCase name of the deciding rule (`DeadBand`, `Cooldown`, `MetricsIncomplete` ...). Append to the list when
    (action, kind) changes, else replace the last line, so that numbers that wobble do not flood the status."""
    reason: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition in the making: status, CamelCase reason, sentence."""

    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """What one stage does now. Every figure is None where there is no data."""

    throughput: float | None = None
    """Units finished per second: tokens for the sampler, trajectories elsewhere, samples for the trainer."""
    utilization: float | None = None
    """Share of its slots' time that was work, 0..1."""
    capacity: float | None = None
    """Trajectories per second that the present replicas could carry (by visits)."""
    backlog: float | None = None
    """Trajectories waiting in front of the stage."""
    wait: float | None = None
    """Share of its slots' time without input (starved), 0..1."""
    blocked: float | None = None
    """Share of its slots' time with nowhere to put the output (blocked or paced), 0..1."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage that holds the pipeline back, with the figures that say so."""

    stage: Stage
    evidence: str


class Symptom(StrEnum):
    """What may be wrong with a pipeline, the most urgent first; each is a section of docs/symptoms.md."""

    SICK_REPLICA = "SickReplica"
    DISK_WAITS = "DiskWaits"
    LONG_TAIL = "LongTail"
    MEMORY_FULL = "MemoryFull"
    WEIGHT_SYNC = "WeightSync"
    REWARD_QUEUE = "RewardQueue"
    TRAINER_SLOW = "TrainerSlow"
    ROLLOUT_SLOW = "RolloutSlow"
    UNSTEADY_STEPS = "UnsteadySteps"
    NO_MISMATCH = "NoMismatch"


@dataclass(frozen=True, slots=True)
class Finding:
    """One symptom that the figures show."""

    symptom: Symptom
    stage: Stage | None
    """Where it shows; None when it is the whole pipeline, or the bus."""
    evidence: str
    """The figures that say so."""
    look_first: str
    """What to check before anything else, and where to read on."""


class Remedy(StrEnum):
    """What reallocation can do for a job now."""

    REALLOCATE = "Reallocate"
    FIX_FIRST = "FixFirst"
    NO_REALLOCATION = "NoReallocation"


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation with its reason."""

    remedy: Remedy
    reason: str


@dataclass(frozen=True)
class Plan:
    """The outcome of one tick. The controller records, then applies, then reports; it decides nothing."""

    decision: Decision
    active: AllocationRevision | None
    """The revision to render children from: the new one when there is one, else the active one."""
    revision: AllocationRevision | None = None
    """A revision to create before anything is applied. Its metadata has name and namespace only."""
    updates: Mapping[str, AllocationRevisionStatus] = field(default_factory=dict)
    """Revision name -> its new status (phase, verdict, measured ...); only those that change."""
    metrics: Fact = Fact(False, "NoData", "no metrics were read yet")
    """For the condition MetricsAvailable."""
    balanced: Fact = Fact(False, "NoEvidence", "nothing was measured yet")
    """For the condition Balanced."""
    throughput: float | None = None
    """Trajectories trained per second over the window."""
    bottleneck: Bottleneck | None = None
    findings: tuple[Finding, ...] = ()
    """Symptoms, the most urgent first."""
    advice: Advice | None = None
    """None while too little is known to recommend anything, or a move is judged."""
    stages: Mapping[Stage, StageEstimate] = field(default_factory=dict)
    model: Model | None = None
    """What the job is measured to be, for the pool it shares."""
    wake: float = 15.0
    """Seconds until the balance wants to be called again, if nothing happens before."""
    window_seconds: float = 60.0
    """How far back the next `Metrics.read` should look."""
