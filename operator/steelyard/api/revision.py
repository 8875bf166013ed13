"""AllocationRevision: one entry of a job's ledger of allocations. Its spec never changes."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from steelyard.api.allocation import Allocation
from steelyard.api.base import Decimal, Model, ObjectMeta, ObjectName, Rule, Text, Time, immutable
from steelyard.api.rules import REVISION_RULES


class Origin(StrEnum):
    """Who made a revision."""

    OPERATOR = "Operator"
    USER = "User"
    ROLLBACK = "Rollback"


class RevisionPhase(StrEnum):
    """How far a revision is."""

    PENDING = "Pending"
    APPLYING = "Applying"
    SETTLING = "Settling"
    JUDGED = "Judged"
    SUPERSEDED = "Superseded"


class Verdict(StrEnum):
    """What a move turned out to be worth."""

    KEPT = "Kept"
    ROLLED_BACK = "RolledBack"
    INCONCLUSIVE = "Inconclusive"


class Move(Model):
    """An allocation and what it replaces."""

    before: Allocation = Allocation()
    """Stage, GPU profile, replicas as they were."""
    after: Allocation
    """Stage, GPU profile, replicas as they shall be."""


class Prediction(Model):
    """What the move was expected to bring."""

    gain_percent: int
    """Expected gain of throughput."""
    cost_seconds: Annotated[int, Field(ge=0)]
    """Expected cost of the change, in seconds of the old throughput."""


class AllocationRevisionSpec(Model):
    """One decision, with all it was decided from; immutable."""

    rules: ClassVar[tuple[Rule, ...]] = REVISION_RULES

    number: Annotated[int, Field(ge=1)]
    """Position in the job's ledger; the highest that is not superseded is applied."""
    parent: ObjectName | None = None
    """The revision this one replaces; its allocation is restored by a rollback."""
    origin: Origin = Origin.OPERATOR
    """Who made it: the operator, a user (then it is held until expiresAt), or a rollback."""
    expires_at: Time | None = None
    """End of a user's hold, for ever when absent; from then on it is taken back if it did harm. Now: try it."""
    allocation: Move
    """The allocation and what it replaces."""
    reason: Text
    """Why, in a sentence with figures."""
    inputs: Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(max_length=256)] = Field(default={})
    """What it was decided from: rates, errors, backlogs, digest of the configuration."""
    predicted: Prediction | None = None
    """What the move was expected to bring."""


class Measured(Model):
    """What the move brought."""

    throughput_before: Decimal | None = None
    """Trajectories trained per second before the move, corrected for drift."""
    throughput_after: Decimal | None = None
    """Trajectories trained per second after the move."""
    transition_cost_seconds: Decimal | None = None
    """Cost of the change, in seconds of the old throughput."""
    transition_cost_error_seconds: Decimal | None = None
    """Standard error of that cost: the larger it is, the less the cost counts for the next move."""


class AllocationRevisionStatus(Model):
    """How far the revision is and what it turned out to be worth."""

    phase: RevisionPhase = RevisionPhase.PENDING
    """Pending, Applying, Settling, Judged or Superseded."""
    verdict: Verdict | None = None
    """Kept, RolledBack or Inconclusive."""
    evidence: Text | None = None
    """The figures behind the verdict."""
    measured: Measured | None = None
    """What the move brought."""
    inputs: Annotated[dict[str, Annotated[str, Field(max_length=256)]], Field(max_length=256)] = Field(default={})
    """What was measured when it was applied, if a user wrote it: what it is judged against."""
    windows: Annotated[int, Field(ge=0)] = 0
    """Windows measured so far without a conclusion."""
    applied_time: Time | None = None
    """When its children were first applied."""
    settling_time: Time | None = None
    """When all its replicas were ready."""
    measuring_time: Time | None = None
    """When the pipeline had settled and measuring began."""
    judged_time: Time | None = None
    """When the verdict was final."""


class AllocationRevision(Model):
    """One entry of a job's ledger: the replicas of each stage and GPU profile, why, and what they were worth."""

    api_version: Literal["steelyard.dev/v1alpha1"] = "steelyard.dev/v1alpha1"
    kind: Literal["AllocationRevision"] = "AllocationRevision"
    metadata: Annotated[ObjectMeta, WithJsonSchema({"type": "object"})]
    spec: Annotated[AllocationRevisionSpec, Field(json_schema_extra=immutable("a revision is a record"))]
    """One decision, with all it was decided from; immutable."""
    status: AllocationRevisionStatus = AllocationRevisionStatus()
    """How far the revision is and what it turned out to be worth."""
