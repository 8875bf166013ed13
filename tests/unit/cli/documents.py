"""What `-o json` promises to programs, command by command. Fields may be added here, never renamed or removed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

StageName = Literal["sampler", "environment", "rewardServer", "trainer"]


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class Queue(Document):
    pool: str
    position: Annotated[int, Field(ge=1)]
    waiting: int


class ConditionDocument(Document):
    status: bool
    reason: str
    message: str


class Training(Document):
    step: int | None
    steps: int | None
    reward: float | None


class Bottleneck(Document):
    stage: StageName
    evidence: str


class Gpus(Document):
    used: float | None
    budget: float | None


class StageDocument(Document):
    ready: int
    desired: int
    draining: int
    gpus: float | None
    throughput: float | None
    utilization: float | None
    backlog: float | None
    wait: float | None


class DecisionDocument(Document):
    time: datetime
    action: str
    kind: str
    reason: str


class JobStatusDocument(Document):
    namespace: str
    name: str
    created: datetime
    phase: str
    mode: Literal["Observe", "Fixed", "Dynamic"]
    queue: Queue | None
    conditions: dict[str, ConditionDocument]
    revision: str | None
    training: Training
    trajectories_per_second: float | None
    tokens_per_second: float | None
    bottleneck: Bottleneck | None
    gpus: Gpus
    stages: dict[StageName, StageDocument]
    decisions: list[DecisionDocument]


class JobStatusList(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["JobStatusList"]
    items: list[JobStatusDocument]


Replicas = dict[StageName, dict[str, int]]
"""Stage -> GPU profile -> replicas."""


class RuleDocument(Document):
    kind: str
    passed: bool
    figure: str
    needed: str
    reason: str
    remedy: str


class InputDocument(Document):
    stage: StageName
    meaning: str
    value: float | None
    unit: str
    query: str
    sample_age_seconds: float | None
    pods: int
    of_pods: int


class TargetDocument(Document):
    now: Replicas
    now_promised: float
    wanted: Replicas
    wanted_promised: float


class LimitDocument(Document):
    kind: str
    before: Replicas
    after: Replicas
    promised: float
    binds: bool
    reason: str
    remedy: str


class CandidateDocument(Document):
    before: Replicas
    after: Replicas
    gain: float
    bound_by: StageName
    gates: list[RuleDocument]


class Answered(Document):
    action: str
    kind: str
    reason: str


class FindingDocument(Document):
    symptom: str
    stage: StageName | None
    evidence: str
    look_first: str


class ExplanationDocument(Document):
    namespace: str
    name: str
    time: datetime
    mode: Literal["Observe", "Fixed", "Dynamic"]
    revision: str | None
    decision: DecisionDocument | None
    asked_again: Answered | None
    agrees: bool
    unreadable: str | None
    prometheus: str | None
    window_seconds: float | None
    inputs: list[InputDocument]
    rules: list[RuleDocument]
    target: TargetDocument | None
    limits: list[LimitDocument]
    candidates: list[CandidateDocument]
    would_change: list[str]
    findings: list[FindingDocument]


class Explanation(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["Explanation"]
    items: Annotated[list[ExplanationDocument], Field(min_length=1, max_length=1)]


class Predicted(Document):
    gain_percent: int
    cost_seconds: int


class MeasuredDocument(Document):
    throughput_before: float | None
    throughput_after: float | None
    transition_cost_seconds: float | None


class Times(Document):
    created: datetime | None
    applied: datetime | None
    settling: datetime | None
    measuring: datetime | None
    judged: datetime | None


class PastDecisionDocument(Document):
    namespace: str
    name: str
    revision: str
    number: int
    parent: str | None
    origin: Literal["Operator", "User", "Rollback"]
    reason: str
    before: Replicas
    after: Replicas
    inputs: dict[str, float | str]
    predicted: Predicted | None
    gates: list[RuleDocument]
    phase: Literal["Pending", "Applying", "Settling", "Judged", "Superseded"]
    verdict: Literal["Kept", "RolledBack", "Inconclusive"] | None
    evidence: str | None
    measured: MeasuredDocument | None
    times: Times


class PastDecision(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["PastDecision"]
    items: Annotated[list[PastDecisionDocument], Field(min_length=1, max_length=1)]


class WhyNotDocument(Document):
    namespace: str
    name: str
    stage: StageName
    replicas: int
    wanted: int
    objection: RuleDocument | None
    rules: list[RuleDocument]
    allocation: Replicas | None


class WhyNot(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["WhyNot"]
    items: Annotated[list[WhyNotDocument], Field(min_length=1, max_length=1)]


class NodeDocument(Document):
    kind: Literal["AgenticRLJob", "Stage", "StatefulSet", "Deployment", "Job", "Pod"]
    name: str
    ready: Annotated[str, Field(pattern=r"^\d+/\d+$")] | None
    state: str | None
    revision: str | None
    policy_version: str | None
    created: datetime | None
    reason: str | None
    children: list[NodeDocument]


class JobTree(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["JobTree"]
    items: Annotated[list[NodeDocument], Field(min_length=1, max_length=1)]


class EntryDocument(Document):
    time: datetime
    kind: Literal["Revision", "Rollback", "Verdict", "Decision", "Change", "Event"]
    actor: str
    subject: str
    stages: list[StageName]
    text: str


class JobHistory(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["JobHistory"]
    items: list[EntryDocument]


class JobTopDocument(JobStatusDocument):
    time_shares: dict[StageName, dict[str, float]]
    staleness: float | None
    waiting_pods: list[str]
    unreadable: str | None


class JobTop(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["JobTop"]
    items: Annotated[list[JobTopDocument], Field(min_length=1, max_length=1)]


class CheckedDocument(Document):
    category: str
    level: Literal["ok", "unknown", "warning", "failure"]
    object: str
    message: str
    code: Annotated[str, Field(pattern=r"^SY\d{4}$")] | None
    help: str | None


class CheckReport(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["CheckReport"]
    items: list[CheckedDocument]


class FieldDocument(Document):
    path: str
    before: Any
    after: Any


class GpuDiff(Document):
    before: float
    after: float
    budget: float


class ReplicasDocument(Document):
    stage: StageName
    profile: str
    before: int
    after: int
    pods: Literal["keep", "start", "stop", "restart", "unknown"]


class ObjectDiff(Document):
    action: Literal["create", "change", "delete"]
    kind: str
    name: str


class ReasonDocument(Document):
    action: str
    kind: str
    reason: str


class JobDiffDocument(Document):
    namespace: str
    name: str
    exists: bool
    differs: bool
    fields: list[FieldDocument]
    decision: ReasonDocument
    unreadable: str | None
    gpus: GpuDiff
    replicas: list[ReplicasDocument]
    objects: list[ObjectDiff] | None


class JobDiff(Document):
    api_version: Literal["cli.steelyard.dev/v1"]
    kind: Literal["JobDiff"]
    items: Annotated[list[JobDiffDocument], Field(min_length=1, max_length=1)]
