"""The status of an AgenticRLJob, and conditions."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from steelyard.api.base import Decimal, Model, ObjectName, ProfileName, Text, Time
from steelyard.api.names import Stage

Count = Annotated[int, Field(ge=0)]


class Condition(Model):
    """One aspect of an object's state, as Kubernetes convention has it."""

    type: Annotated[str, Field(max_length=316)]
    """Name of the aspect."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)]
    """One CamelCase word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """A sentence for people."""
    last_transition_time: Time
    """When `status` last changed."""
    observed_generation: int | None = None
    """Generation of the object this was seen at."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class ReplicaCounts(Model):
    """Replicas of one GPU profile of a stage."""

    desired: Count = 0
    """Replicas that the active revision asks for."""
    ready: Count = 0
    """Replicas that work."""
    pending: Count = 0
    """Replicas that are not ready yet."""
    draining: Count = 0
    """Replicas that finish their work before they stop."""


class StageStatus(Model):
    """What a stage has and does."""

    profiles: Annotated[dict[ProfileName, ReplicaCounts], Field(max_length=8)] = Field(default={})
    """Replicas by GPU profile."""
    gpus: Decimal | None = None
    """GPUs it holds, terminating pods included."""
    throughput: Decimal | None = None
    """Units it finishes per second: tokens of the sampler, trajectories elsewhere."""
    utilization: Decimal | None = None
    """Share of its slots' time that is work, 0 to 1."""
    backlog: Decimal | None = None
    """Trajectories that wait in front of it."""
    wait: Decimal | None = None
    """Share of its slots' time without input, 0 to 1."""


class StagesStatus(Model):
    """What each stage has and does."""

    sampler: StageStatus | None = None
    """The sampler."""
    environment: StageStatus | None = None
    """The environment."""
    reward_server: StageStatus | None = None
    """The reward server."""
    trainer: StageStatus | None = None
    """The trainer."""

    @classmethod
    def of(cls, stages: Mapping[Stage, StageStatus]) -> Self:
        return cls(**{stage.attribute: status for stage, status in stages.items()})

    def __getitem__(self, stage: Stage) -> StageStatus:
        status: StageStatus | None = getattr(self, stage.attribute)
        return status or StageStatus()


class BottleneckStatus(Model):
    """The stage that holds the pipeline back."""

    stage: Annotated[str, Field(max_length=63)]
    """Its key in `spec.stages`."""
    evidence: Text
    """The figures that say so."""


class FindingStatus(Model):
    """One symptom that the figures show."""

    symptom: Annotated[str, Field(max_length=63)]
    """One CamelCase word: SickReplica, DiskWaits, LongTail, MemoryFull, WeightSync, RewardQueue, TrainerSlow,
    RolloutSlow, UnsteadySteps, or NoMismatch when nothing shows and scaling will not help."""
    stage: Annotated[str, Field(max_length=63)] | None = None
    """Key in `spec.stages` of the stage where it shows; absent when it is the whole pipeline."""
    evidence: Text
    """The figures that say so."""
    look_first: Text
    """What to check before anything else, and where to read on."""


class RecommendationStatus(Model):
    """What reallocation can do for the job now."""

    remedy: Annotated[str, Field(max_length=63)]
    """Reallocate, FixFirst (a finding that no allocation cures) or NoReallocation (nothing worth its cost is left)."""
    reason: Text
    """Why, with the most that any allocation within the spec could gain."""


class TrainingStatus(Model):
    """How far the learning is."""

    step: Count | None = None
    """Training steps done."""
    steps: Count | None = None
    """Training steps asked for."""
    reward: Decimal | None = None
    """Mean reward of the last step."""
    last_step_time: Time | None = None
    """When the last step ended."""


class GpuStatus(Model):
    """GPUs of the job."""

    budget: Decimal
    """GPUs it may hold: its own budget, or less where its pool grants less."""
    used: Decimal
    """GPUs of every bound pod that has not ended, terminating pods included."""


class DecisionStatus(Model):
    """One decision, also the decision to change nothing."""

    time: Time
    """When it was made."""
    action: Annotated[str, Field(max_length=63)]
    """What was done: Hold, Move, Rollback ..."""
    kind: Annotated[str, Field(max_length=63)]
    """One CamelCase word: the rule that decided."""
    reason: Text
    """Why, in a sentence with figures."""


class JobStatus(Model):
    """What the operator observed."""

    observed_generation: int | None = None
    """Generation of the spec this status is about."""
    phase: Annotated[str, Field(max_length=63)] | None = None
    """One word for people, derived from the conditions; programs read the conditions."""
    conditions: Conditions = ()
    """Aspects of the job's state."""
    active_revision: ObjectName | None = None
    """AllocationRevision whose allocation is applied."""
    throughput: Decimal | None = None
    """Trajectories trained per second."""
    bottleneck: BottleneckStatus | None = None
    """The stage that holds the pipeline back."""
    findings: Annotated[tuple[FindingStatus, ...], Field(max_length=8)] = ()
    """What the figures show to be wrong, the most urgent first."""
    recommendation: RecommendationStatus | None = None
    """Whether to reallocate; absent while too little is known, or a move is judged."""
    stages: StagesStatus = StagesStatus()
    """What each stage has and does."""
    training: TrainingStatus | None = None
    """How far the learning is."""
    gpus: GpuStatus | None = None
    """GPUs of the job."""
    last_decisions: Annotated[tuple[DecisionStatus, ...], Field(max_length=5)] = ()
    """The last five decisions, newest first."""

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type, if there is one."""
        return next((condition for condition in self.conditions if condition.type == kind), None)
