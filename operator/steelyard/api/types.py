"""Every public type of the API by its name; `steelyard.api` hands them out."""

from steelyard.api.allocation import Allocation
from steelyard.api.base import InvalidResource, ObjectMeta, explain
from steelyard.api.job import AgenticRLJob, AgenticRLJobSpec, Algorithm, ClaimSource, ConfigMapSource, PoolSource
from steelyard.api.names import Stage, revision_name
from steelyard.api.planning import Planning
from steelyard.api.pool import PoolGrant, PoolStatus, Queue, RLPool, RLPoolSpec
from steelyard.api.quantities import format_quantity, parse_quantity
from steelyard.api.revision import (
    AllocationRevision,
    AllocationRevisionSpec,
    AllocationRevisionStatus,
    Measured,
    Move,
    Origin,
    Prediction,
    RevisionPhase,
    Verdict,
)
from steelyard.api.scaling import Scaling
from steelyard.api.stages import Environment, Episode, GpuProfile, Replicas, RewardServer, Sampler, StageSpec, Trainer
from steelyard.api.status import (
    BottleneckStatus,
    Condition,
    DecisionStatus,
    FindingStatus,
    GpuStatus,
    JobStatus,
    RecommendationStatus,
    ReplicaCounts,
    StagesStatus,
    StageStatus,
    TrainingStatus,
)

__all__ = [
    "AgenticRLJob",
    "AgenticRLJobSpec",
    "Algorithm",
    "Allocation",
    "AllocationRevision",
    "AllocationRevisionSpec",
    "AllocationRevisionStatus",
    "BottleneckStatus",
    "ClaimSource",
    "Condition",
    "ConfigMapSource",
    "DecisionStatus",
    "Environment",
    "Episode",
    "FindingStatus",
    "GpuProfile",
    "GpuStatus",
    "InvalidResource",
    "JobStatus",
    "Measured",
    "Move",
    "ObjectMeta",
    "Origin",
    "Planning",
    "PoolGrant",
    "PoolSource",
    "PoolStatus",
    "Prediction",
    "Queue",
    "RLPool",
    "RLPoolSpec",
    "RecommendationStatus",
    "ReplicaCounts",
    "Replicas",
    "RevisionPhase",
    "RewardServer",
    "Sampler",
    "Scaling",
    "Stage",
    "StageSpec",
    "StageStatus",
    "StagesStatus",
    "Trainer",
    "TrainingStatus",
    "Verdict",
    "explain",
    "format_quantity",
    "parse_quantity",
    "revision_name",
]
