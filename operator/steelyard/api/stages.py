"""The four stages of a job: what each runs and between which bounds it may be scaled."""

from fractions import Fraction
from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from steelyard.api.base import Arguments, Model, ObjectName, PodTemplate, ProfileName, Rule, Text
from steelyard.api.names import DEFAULT_PROFILE
from steelyard.api.quantities import Gpus, Quantity
from steelyard.api.rules import EPISODE_RULES, PROFILE_RULES, REPLICA_RULES

EntryPoint = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$")]
Image = Annotated[str, Field(min_length=1, max_length=512)]


class Replicas(Model):
    """Bounds within which the operator scales a stage."""

    rules: ClassVar[tuple[Rule, ...]] = REPLICA_RULES

    min: Annotated[int, Field(ge=1, le=1000)] = 1
    """Fewest replicas, over all GPU profiles together; none would stop the pipeline, which is what suspend is for."""
    max: Annotated[int, Field(ge=1, le=1000)] = 8
    """Most replicas, over all GPU profiles together."""
    initial: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Replicas before the first decision; min when absent."""

    @property
    def first(self) -> int:
        """Replicas before the first decision."""
        return self.min if self.initial is None else self.initial


class TrainerReplicas(Replicas):
    """Bounds of the trainer, which has exactly one rank."""

    max: Annotated[int, Field(ge=1, le=1)] = 1
    """Most replicas; the trainer has one."""


class GpuProfile(Model):
    """One shape of accelerator that replicas of a stage may have; the planner chooses among them."""

    rules: ClassVar[tuple[Rule, ...]] = PROFILE_RULES

    name: ProfileName
    """Name of the profile, used in object names and allocations."""
    resources: Annotated[dict[str, Quantity], Field(min_length=1, max_length=8)]
    """Requests and limits of one replica, such as `nvidia.com/gpu: 1`."""
    gpus: Gpus
    """What one replica takes from the budget; above 1 a whole number, which is also the tensor parallel size."""
    speed_percent: Annotated[int, Field(ge=1, le=1000)] = 100
    """Expected speed relative to the other profiles, until it was measured."""
    memory_percent: Annotated[int, Field(ge=1, le=100)] = 100
    """Share of the visible device's memory to use: 100 for whole GPUs and MIG, less where a device is shared."""


class StageSpec(Model):
    """What every stage has."""

    image: Image | None = None
    """Container image; the operator's own image for this stage when absent."""
    replicas: Replicas = Replicas()
    """Bounds within which the operator scales this stage."""
    gpu_profiles: Annotated[
        tuple[GpuProfile, ...],
        Field(
            max_length=8,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    """Accelerator shapes to choose from; none for a stage that runs without GPUs (its one profile is `default`)."""
    drain_seconds: Annotated[int, Field(ge=0, le=86400)] = 300
    """How long a replica may take to finish its work before it is stopped."""
    template: PodTemplate | None = None
    """Pod template (`metadata`, `spec`) merged over the operator's: volumes, tolerations, CPU, memory, containers."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the stage's pods."""

    @field_validator("gpu_profiles")
    @classmethod
    def _named_once(cls, profiles: tuple[GpuProfile, ...]) -> tuple[GpuProfile, ...]:
        """The API server sees to this itself: the list is a map by name."""
        names = [profile.name for profile in profiles]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'Duplicate value: {{"name":"{name}"}}')
        return profiles

    @property
    def profiles(self) -> dict[str, Fraction]:
        """Profile name -> GPUs of one replica, in the user's order; never empty."""
        return {profile.name: profile.gpus for profile in self.gpu_profiles} or {DEFAULT_PROFILE: Fraction(0)}


class Engine(Model):
    """The inference engine of the sampler."""

    args: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Arguments passed to vLLM, such as `--max-model-len`."""


class Sampler(StageSpec):
    """Serves the policy: vLLM, kept at the newest weights."""

    engine: Engine = Engine()
    """The inference engine."""


class Episode(Model):
    """Bounds of one episode."""

    rules: ClassVar[tuple[Rule, ...]] = EPISODE_RULES

    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """Longest time of an episode; then its trajectory counts as timed out."""
    tool_timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 60
    """Longest time of one tool call."""
    max_turns: Annotated[int, Field(ge=1, le=10000)] = 30
    """Most turns of the policy in an episode."""


class Environment(StageSpec):
    """Drives episodes: asks the samplers, runs tools."""

    entrypoint: EntryPoint
    """`package.module:factory` of the user's environment."""
    args: Arguments = Field(default={})
    """Keyword arguments of the factory."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 16
    """Episodes that one replica runs at a time."""
    episode: Episode = Episode()
    """Bounds of one episode."""


class RewardServer(StageSpec):
    """Scores finished trajectories."""

    entrypoint: EntryPoint
    """`package.module:callable` of the user's reward."""
    args: Arguments = Field(default={})
    """Keyword arguments of the reward."""


class Trainer(StageSpec):
    """Learns from scored trajectories and publishes weights."""

    replicas: TrainerReplicas = TrainerReplicas()
    """Bounds of the trainer, which has exactly one rank."""


class Stages(Model):
    """The four stages of the pipeline."""

    sampler: Sampler = Sampler()
    """Serves the policy."""
    environment: Environment
    """Drives episodes."""
    reward_server: RewardServer
    """Scores trajectories."""
    trainer: Trainer = Trainer()
    """Learns."""
