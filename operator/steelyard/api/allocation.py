"""How many replicas of which GPU profile each stage has: the value that moves through the whole operator."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from steelyard.api.base import Model
from steelyard.api.names import Stage

Counts = Annotated[
    dict[str, Annotated[int, Field(ge=0, le=1000)]],
    Field(max_length=8),
    AfterValidator(lambda counts: dict(sorted((name, n) for name, n in counts.items() if n))),
]
"""GPU profile -> replicas, in a fixed order; a profile with none is left out."""

_NONE: Mapping[str, int] = MappingProxyType({})


class Allocation(Model):
    """Replicas per stage and GPU profile; a stage that is not named has none. Equal allocations are equal values."""

    sampler: Counts | None = None
    """Replicas of the sampler by GPU profile."""
    environment: Counts | None = None
    """Replicas of the environment by GPU profile."""
    reward_server: Counts | None = None
    """Replicas of the reward server by GPU profile."""
    trainer: Counts | None = None
    """Replicas of the trainer by GPU profile."""

    @classmethod
    def of(cls, stages: Mapping[Stage, Mapping[str, int]]) -> Self:
        return cls.model_validate({stage.attribute: dict(counts) for stage, counts in stages.items()})

    def __getitem__(self, stage: Stage) -> Mapping[str, int]:
        """Profile -> replicas of `stage`, profiles without replicas left out."""
        counts: Mapping[str, int] | None = getattr(self, stage.attribute)
        return _NONE if counts is None else counts

    def names(self, stage: Stage) -> bool:
        """Whether the stage is mentioned at all; `fixed` may leave stages to the operator."""
        return getattr(self, stage.attribute) is not None

    @property
    def is_blank(self) -> bool:
        """Whether no stage is mentioned."""
        return not any(self.names(stage) for stage in Stage)

    def replicas(self, stage: Stage) -> int:
        return sum(self[stage].values())

    def gpus(self, prices: Mapping[Stage, Mapping[str, Fraction]]) -> Fraction:
        """GPUs that all replicas take together, at `prices` GPUs a replica (`job.spec.gpu_prices`)."""
        return sum((n * prices[stage][profile] for stage, profile, n in self.entries()), Fraction(0))

    def entries(self) -> Iterator[tuple[Stage, str, int]]:
        """(stage, profile, replicas) in a fixed order, zeros left out."""
        for stage in Stage:
            for profile, n in self[stage].items():
                yield stage, profile, n

    def diff(self, other: Self) -> dict[tuple[Stage, str], int]:
        """What must be added (positive) or removed to come from `self` to `other`."""
        changes = {(stage, profile): n for stage, profile, n in other.entries()}
        for stage, profile, n in self.entries():
            changes[stage, profile] = changes.get((stage, profile), 0) - n
        return {key: change for key, change in sorted(changes.items()) if change}

    def replace(self, stage: Stage, counts: Mapping[str, int]) -> Self:
        """The same allocation with other replicas in one stage."""
        return type(self).of({**{s: self[s] for s in Stage}, stage: counts})

    def __str__(self) -> str:
        return ", ".join(f"{stage.field} {n} {profile}" for stage, profile, n in self.entries()) or "nothing"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allocation) and tuple(self.entries()) == tuple(other.entries())

    def __hash__(self) -> int:
        return hash(tuple(self.entries()))
