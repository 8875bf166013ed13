"""RLPool: the GPUs that many jobs share, and who may draw on them. Its admin's word, never a job's."""

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator

from steelyard.api.base import Decimal, Model, ObjectMeta, Rule, Time
from steelyard.api.pool_rules import POOL_RULES
from steelyard.api.quantities import Gpus
from steelyard.api.status import Condition, Conditions, Count

MOST_GRANTS = 1500
"""Rows that fit into one object of an API server, at most 1.5 MiB, even when all names and reasons are long."""

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Short = Annotated[str, Field(max_length=256)]


class Queue(Model):
    """Who draws on the pool together, and how much of it is theirs."""

    name: DnsLabel
    """What jobs name in `spec.pool.queue`."""
    namespaces: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=256)]
    """Namespaces whose jobs may use this queue; all others are refused."""
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    """Share of the pool relative to the other queues, divided among the queue's jobs."""
    guaranteed_gpus: Gpus = Field(default=Fraction(0))
    """GPUs that the queue gets whenever it wants them; what it leaves is lent to the others."""
    borrowing_limit_gpus: Gpus | None = None
    """Most GPUs beyond the guarantee; as many as the pool has when absent."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Higher goes first: it takes back what lower ones borrowed, by draining their pods."""

    @property
    def limit(self) -> Fraction | None:
        """Most GPUs of all its jobs together; None when only the pool bounds them."""
        return None if self.borrowing_limit_gpus is None else self.guaranteed_gpus + self.borrowing_limit_gpus


class RLPoolSpec(Model):
    """How many GPUs there are and who may draw on them."""

    rules: ClassVar[tuple[Rule, ...]] = POOL_RULES

    gpus: Gpus
    """GPUs that all jobs of the pool may hold together at any time, terminating pods included."""
    queues: Annotated[
        tuple[Queue, ...],
        Field(
            min_length=1,
            max_length=64,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ]
    """Who may draw on the pool."""
    ageing_seconds: Annotated[int, Field(ge=60, le=2_592_000)] = 3600
    """Each such time that a job waits raises the priority of its smallest allocation by one: none waits for ever."""

    @field_validator("queues")
    @classmethod
    def _named_once(cls, queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        """The API server sees to this itself: the list is a map by name."""
        names = [queue.name for queue in queues]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'Duplicate value: {{"name":"{name}"}}')
        return queues

    def queue(self, name: str) -> Queue | None:
        """The queue of this name, if there is one."""
        return next((queue for queue in self.queues if queue.name == name), None)


class PoolGrant(Model):
    """What one job may hold of the pool."""

    namespace: DnsLabel
    """The job's namespace."""
    job: DnsLabel
    """The job's name."""
    queue: DnsLabel
    """The queue it draws on."""
    gpus: Decimal
    """GPUs it may hold; 0 while it waits."""
    borrowed: Decimal | None = None
    """Part of them that other queues may take back."""
    used: Decimal
    """GPUs of its bound pods, terminating ones included."""
    since: Time | None = None
    """Since when it has had GPUs."""
    waiting_since: Time | None = None
    """Since when it has waited for its smallest allocation."""
    waited_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long it had waited when this began; a job keeps for as long what it waited for."""
    reason: Short | None = None
    """Why it has no more, for people."""


class PoolStatus(Model):
    """Who has what of the pool."""

    observed_generation: int | None = None
    """Generation of the spec this status is about."""
    conditions: Conditions = ()
    """Ready: whether GPUs are shared out, and why not; Stalled: whether only a person can help."""
    used: Decimal | None = None
    """GPUs of all bound pods of its jobs, terminating ones included."""
    jobs: Count | None = None
    """Jobs that want or hold GPUs of the pool."""
    waiting: Count | None = None
    """Jobs among them that have less than their smallest allocation."""
    grants: Annotated[
        tuple[PoolGrant, ...], Field(max_length=MOST_GRANTS, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """What each job may hold. The operator alone writes it, and jobs obey it."""

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type, if there is one."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class RLPool(Model):
    """GPUs that many jobs share, by guarantee, weight and priority. It is cluster-scoped: an admin decides who may."""

    api_version: Literal["steelyard.dev/v1alpha1"] = "steelyard.dev/v1alpha1"
    kind: Literal["RLPool"] = "RLPool"
    metadata: Annotated[ObjectMeta, WithJsonSchema({"type": "object"})]
    spec: RLPoolSpec
    """How many GPUs there are and who may draw on them."""
    status: PoolStatus = PoolStatus()
    """Who has what of the pool; never set by users."""
