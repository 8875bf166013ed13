"""AgenticRLJob: a post-training pipeline of four elastic stages."""

from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, WithJsonSchema

from steelyard.api.allocation import Allocation
from steelyard.api.base import Arguments, Model, ObjectMeta, ObjectName, Rule, immutable
from steelyard.api.names import Stage
from steelyard.api.planning import Planning
from steelyard.api.pool import DnsLabel
from steelyard.api.pool_rules import POOL_IS_FOR_LIFE
from steelyard.api.quantities import Quantity
from steelyard.api.rules import JOB_RULES, MODEL_RULES, SOURCE_RULES
from steelyard.api.scaling import Budget, Scaling
from steelyard.api.spec_rules import SPEC_RULES
from steelyard.api.stages import Stages, StageSpec
from steelyard.api.status import JobStatus

AbsolutePath = Annotated[str, Field(max_length=1024, pattern=r"^/.*$")]
RelativePath = Annotated[str, Field(max_length=1024, pattern=r"^[^/].*$")]

_IMMUTABLE = immutable("the job's ledger depends on it")


class ClaimSource(Model):
    """Files of a PersistentVolumeClaim in the job's namespace."""

    name: ObjectName
    """Name of the PersistentVolumeClaim."""
    sub_path: RelativePath | None = None
    """Folder inside the claim; its root when absent."""


class ConfigMapSource(Model):
    """Files of a ConfigMap in the job's namespace."""

    name: ObjectName
    """Name of the ConfigMap."""


class ModelSource(Model):
    """The policy to start from: exactly one of `path` and `claim`."""

    rules: ClassVar[tuple[Rule, ...]] = MODEL_RULES

    path: AbsolutePath | None = None
    """Folder inside the worker images."""
    claim: ClaimSource | None = None
    """Folder of a claim."""


class TasksSource(Model):
    """The data set, files of one JSON object a line (`*.jsonl`): exactly one of `claim` and `configMap`."""

    rules: ClassVar[tuple[Rule, ...]] = SOURCE_RULES

    claim: ClaimSource | None = None
    """Files of a claim."""
    config_map: ConfigMapSource | None = None
    """Files of a ConfigMap."""


class CodeSource(Model):
    """The user's own modules, put on PYTHONPATH: exactly one of `claim` and `configMap`."""

    rules: ClassVar[tuple[Rule, ...]] = SOURCE_RULES

    claim: ClaimSource | None = None
    """Modules in a claim."""
    config_map: ConfigMapSource | None = None
    """Modules in a ConfigMap."""


class Algorithm(Model):
    """What is learnt how."""

    name: Annotated[Literal["GRPO"], Field(json_schema_extra=_IMMUTABLE)] = "GRPO"
    """The algorithm; fixed after creation."""
    group_size: Annotated[int, Field(ge=2, le=1024, json_schema_extra=_IMMUTABLE)] = 8
    """Trajectories per prompt; fixed after creation."""
    prompts_per_step: Annotated[int, Field(ge=1, le=65536, json_schema_extra=_IMMUTABLE)] = 16
    """Prompts per training step; times groupSize it is the batch. Fixed after creation."""
    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Training steps after which the job is complete."""
    max_staleness: Annotated[int, Field(ge=0, le=64)] = 2
    """Most policy versions a trajectory may lag behind; 0 trains synchronously."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra=_IMMUTABLE)] = 7
    """Fixes task order and sampling, so that runs can be compared. Fixed after creation."""
    args: Arguments = Field(default={})
    """Settings of the algorithm, such as `learningRate: "1e-6"`."""

    @property
    def batch(self) -> int:
        """Trajectories of one training step."""
        return self.group_size * self.prompts_per_step


class Storage(Model):
    """A claim to make."""

    size: Quantity = "10Gi"
    """Capacity to ask for."""
    storage_class_name: ObjectName | None = None
    """StorageClass of the job's claims; the cluster's default when absent."""


class Checkpoints(Model):
    """How often the job's progress becomes durable, and where."""

    every_steps: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Training steps between two checkpoints."""
    reclaim: Literal["Retain", "Delete"] = "Retain"
    """What happens to the checkpoints when the job is deleted."""
    storage: Annotated[Storage, Field(json_schema_extra=_IMMUTABLE)] = Storage()
    """The claim of the checkpoints; fixed after creation."""


class Buffer(Model):
    """Bounds of the queues between the stages; a full queue makes its producers wait."""

    max_trajectories: Annotated[int, Field(ge=1, le=10_000_000)] = 4096
    """Most trajectories that wait for a reward; at least (maxStaleness + 1) batches."""
    max_experience: Annotated[int, Field(ge=1, le=10_000_000)] = 4096
    """Most scored trajectories that wait for the trainer; at least everySteps + maxStaleness + 1 batches."""


class Tracing(Model):
    """Spans of trajectories."""

    sample_percent: Annotated[int, Field(ge=0, le=100)] = 100
    """Share of trajectories to trace."""
    retention_seconds: Annotated[int, Field(ge=60, le=31_536_000)] = 86_400
    """How long spans are kept on the bus."""


class PoolSource(Model):
    """The pool that lends the job its GPUs."""

    name: ObjectName
    """Name of the RLPool; fixed after creation."""
    queue: DnsLabel
    """The pool's queue to draw on; it must list the job's namespace."""


class AgenticRLJobSpec(Model):
    """What the user wants."""

    rules: ClassVar[tuple[Rule, ...]] = SPEC_RULES

    suspend: bool = False
    """Stop all pods, after a checkpoint, and keep the claims."""
    model: Annotated[ModelSource, Field(json_schema_extra=_IMMUTABLE)]
    """The policy to start from; fixed after creation."""
    tasks: Annotated[TasksSource, Field(json_schema_extra=_IMMUTABLE)]
    """The data set; fixed after creation."""
    code: CodeSource | None = None
    """The user's own environment and reward."""
    algorithm: Algorithm = Algorithm()
    """What is learnt how."""
    checkpoints: Checkpoints = Checkpoints()
    """How often progress becomes durable, and where."""
    budget: Budget
    """The ceiling over all stages."""
    pool: PoolSource | None = None
    """The RLPool the job shares GPUs of; it then holds no more than the pool grants, nor than its budget."""
    stages: Stages
    """The four stages of the pipeline."""
    buffer: Buffer = Buffer()
    """Bounds of the queues between the stages."""
    scaling: Scaling = Scaling()
    """How the operator moves capacity between the stages."""
    planning: Planning | None = None
    """What the operator may expect of the model and the GPUs until it has measured them."""
    tracing: Tracing = Tracing()
    """Spans of trajectories."""

    def stage(self, stage: Stage) -> StageSpec:
        spec: StageSpec = getattr(self.stages, stage.attribute)
        return spec

    @property
    def gpu_prices(self) -> dict[Stage, dict[str, Fraction]]:
        """Stage -> profile -> GPUs of one replica."""
        return {stage: self.stage(stage).profiles for stage in Stage}

    @property
    def least_gpus(self) -> Fraction:
        """What the stages' minima take at their cheapest profiles."""
        stages = [self.stage(stage) for stage in Stage]
        return sum((stage.replicas.min * min(stage.profiles.values()) for stage in stages), Fraction(0))

    @property
    def initial_allocation(self) -> Allocation:
        """Where the job starts: `fixed` in mode Fixed, else the initial replicas of each stage's first profile.

        Stages that `fixed` leaves out start as in the other modes.
        """
        fixed = self.scaling.fixed if self.scaling.mode == "Fixed" else None
        start = {}
        for stage in Stage:
            spec = self.stage(stage)
            named = fixed is not None and fixed.names(stage)
            start[stage] = fixed[stage] if named and fixed else {next(iter(spec.profiles)): spec.replicas.first}
        return Allocation.of(start)


class AgenticRLJob(Model):
    """A reinforcement-learning pipeline of four elastic stages, kept in balance by the operator."""

    rules: ClassVar[tuple[Rule, ...]] = JOB_RULES

    api_version: Literal["steelyard.dev/v1alpha1"] = "steelyard.dev/v1alpha1"
    kind: Literal["AgenticRLJob"] = "AgenticRLJob"
    metadata: Annotated[ObjectMeta, WithJsonSchema({"type": "object"})]
    spec: Annotated[AgenticRLJobSpec, Field(json_schema_extra=POOL_IS_FOR_LIFE)]
    """What the user wants."""
    status: JobStatus = JobStatus()
    """What the operator observed; never set by users."""

    def within(self, gpus: Fraction) -> Self:
        """The same job on another budget, unchecked: a pool may lend less than the rules ask of a budget."""
        spec = self.spec.model_copy(update={"budget": Budget(gpus=gpus)})
        return self.model_copy(update={"spec": spec})
