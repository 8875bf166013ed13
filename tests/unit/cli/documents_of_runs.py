"""The same of commands that tell what ran, or would run: `audit`, `logs`, `plan`, `rehearse`, `trace`, `twin`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from tests.unit.cli.documents import Document, Replicas, StageName

Share = Annotated[float, Field(ge=0, le=1.0001)]


class LogLine(Document):
    time: datetime | None
    stage: StageName | Literal["bus"]
    pod: str
    container: str
    text: str


class LogLineList(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["LogLineList"]
    items: list[LogLine]


class SpanDocument(Document):
    name: str
    stage: str
    pod: str
    id: str
    parent: str | None
    start: float
    end: float
    waited_seconds: float
    worked_seconds: float
    failed: bool
    about: dict[str, Any]


class Trajectory(Document):
    trajectory: Annotated[str, Field(pattern=r"^\d+/\d+/\d+$")]
    outcome: str
    start: float
    seconds: float
    reward: float | None
    step: int | None
    staleness: int | None
    tokens: int | None
    shares: dict[str, float]
    spans: list[SpanDocument]


class TrajectoryList(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["TrajectoryList"]
    items: list[Trajectory]


class SceneDocument(Document):
    pods: int
    restarts: int
    failed_pods: int
    warnings: int
    pending_pods: int
    other_pods: int
    other_gpus: float


class Rehearsal(Document):
    rung: Literal["one task", "a few at once", "all stages"]
    job: str
    failure: str | None
    ready_seconds: float | None
    trajectories: int
    trained: int
    failed: int
    timed_out: int
    retried: int
    steps: int
    step_seconds: float | None
    step_interval_seconds: float | None
    median_seconds: float | None
    slow_seconds: float | None
    shares: dict[str, float]
    bottleneck: StageName | None
    findings: list[str]
    before: SceneDocument
    after: SceneDocument


class RehearsalList(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["RehearsalList"]
    items: list[Rehearsal]


class Quantiles(Document):
    count: float
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class PartDocument(Quantiles):
    part: str
    seconds: float | None
    waits: bool


class ToolDocument(Quantiles):
    tool: str
    failed: float


class QuestionDocument(Document):
    question: Annotated[str, Field(pattern=r"\?$")]
    answer: str
    more: str


class BottleneckDocument(Document):
    stage: StageName
    evidence: str


class WaitDocument(Document):
    stage: StageName
    state: str
    for_: Annotated[str, Field(alias="for")]
    share: Share
    gpu_hours: float | None


class GpuHours(Document):
    held: float
    busy: float
    waiting: float
    idle: float
    wasted: float
    wasted_cost: float | None
    by_stage: dict[StageName, dict[str, float]]


class Static(Document):
    allocation: Replicas
    moves: int
    gpu_hours: float
    static_gpu_hours: float
    saved_gpu_hours: float
    saved_cost: float | None
    speedup: float | None
    unknown_seconds: float


class Reallocation(Document):
    remedy: Literal["Reallocate", "FixFirst", "NoReallocation"] | None
    most_gain: float | None
    most_gain_with_other_bounds: float | None
    gpu_hours: float | None
    cost: float | None


class AuditFinding(Document):
    layer: Literal["machines", "trajectories", "stages", "learning"]
    symptom: str
    stage: StageName | None
    evidence: str
    look_first: str
    windows: int


class AuditRevision(Document):
    name: str
    origin: Literal["Operator", "User", "Rollback"]
    change: str
    predicted_gain: float | None
    throughput_before: float | None
    throughput_after: float | None
    transition_cost_seconds: float | None
    verdict: str


class RecommendedReplicas(Document):
    min: int
    max: int
    now_min: int
    now_max: int


class AuditDocument(Document):
    name: str
    namespace: str
    verdict: str
    questions: Annotated[list[QuestionDocument], Field(min_length=3, max_length=3)]
    seconds: float
    throughput: float | None
    trained: float | None
    bottleneck: BottleneckDocument | None
    biggest_wait: WaitDocument | None
    gpu_hours: GpuHours | None
    versus_static: Static | None
    reallocation: Reallocation
    way: list[PartDocument]
    tools: list[ToolDocument]
    waits: dict[StageName, dict[str, Share]]
    findings: list[AuditFinding]
    revisions: list[AuditRevision]
    recommended_replicas: dict[StageName, RecommendedReplicas]
    missing: list[str]
    record: dict[str, Any]
    """For `--recording`, whose own reader checks it."""


class Audit(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["Audit"]
    items: Annotated[list[AuditDocument], Field(min_length=1, max_length=1)]


class Training(Document):
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    micro_batch: int
    gpus: int
    seconds: float
    memory_bytes_per_gpu: int


class Samplers(Document):
    tensor_parallel: int
    replicas: int


class Sampling(Document):
    samplers: list[Samplers]
    gpus: int
    seconds: float
    tail_seconds: float
    memory_bytes_per_gpu: int


class Lengths(Document):
    trajectories: int
    mean_tokens: int
    longest_tokens: int


class Option(Document):
    tensor_parallel: int
    replicas: int
    seconds: float


class Mixed(Document):
    samplers: list[Samplers]
    seconds: float
    gain: float


class Pruned(Document):
    reason: str
    count: int
    best: Training | None


class PlanDocument(Document):
    model: str
    hardware: str
    gpus: int
    batch: int
    lengths: Lengths
    training: Training
    sampling: Sampling
    free_gpus: int
    seconds: float
    tokens_per_second: float
    relative_error: float
    options: list[Option]
    mixed: Mixed | None
    left_out: list[str]
    pruned: list[Pruned]
    notes: list[str]


class Plan(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["Plan"]
    items: Annotated[list[PlanDocument], Field(min_length=1, max_length=1)]


class ChangeDocument(Document):
    at: float
    step: int
    allocation: Replicas


class TwinDecision(Document):
    at: float
    action: str
    kind: str
    reason: str


class Policy(Document):
    policy: str
    throughput: float
    gpu_hours: float
    moves: int
    seconds: float
    step_ends: list[float]
    changes: list[ChangeDocument]
    decisions: list[TwinDecision]


class TwinDocument(Document):
    profile: str
    seed: int
    gpus: int
    steps: int
    policies: Annotated[list[Policy], Field(min_length=1)]


class Twin(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["Twin"]
    items: Annotated[list[TwinDocument], Field(min_length=1, max_length=1)]
