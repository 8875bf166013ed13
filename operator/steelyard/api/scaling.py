"""How a job is rebalanced, within which budget and with how much patience."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steelyard.api.allocation import Allocation
from steelyard.api.base import Model, ObjectName, Rule
from steelyard.api.quantities import Gpus
from steelyard.api.rules import SCALING_RULES

Mode = Literal["Observe", "Fixed", "Dynamic"]
Percent = Annotated[int, Field(ge=0, le=100)]


class Budget(Model):
    """The ceiling over all stages."""

    gpus: Gpus
    """GPUs the job may hold at any time, terminating pods included."""


class Evaluation(Model):
    """How a move is judged once it was made."""

    settle_seconds: Annotated[int, Field(ge=0, le=86400)] = 60
    """Shortest time to let the pipeline settle before it is measured."""
    steps: Annotated[int, Field(ge=1, le=1000)] = 5
    """Fewest training steps to measure."""


class Scaling(Model):
    """How the operator moves capacity between the stages."""

    rules: ClassVar[tuple[Rule, ...]] = SCALING_RULES

    mode: Mode = "Dynamic"
    """Observe recommends and changes nothing, Fixed applies `fixed`, Dynamic moves capacity to the bottleneck."""
    fixed: Allocation | None = None
    """The allocation of mode Fixed: stage, GPU profile, replicas. A stage left out keeps its initial replicas."""
    interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 15
    """Time between two decisions."""
    objective: Literal["Throughput", "Efficiency"] = "Throughput"
    """Throughput uses the whole budget; Efficiency takes the cheapest allocation within 3 % of the best."""
    min_gain_percent: Percent = 5
    """Gain below which no move is made."""
    tolerance_percent: Percent = 10
    """Loss that a move which saves GPUs may cost."""
    horizon_seconds: Annotated[int, Field(ge=1, le=604800)] = 1800
    """Time within which a move must earn back what it costs."""
    cooldown_seconds: Annotated[int, Field(ge=0, le=86400)] = 120
    """Time for which a moved stage is left alone."""
    max_metric_age_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Age from which a metric counts as missing; nothing is moved on missing metrics."""
    evaluation: Evaluation = Evaluation()
    """How a move is judged."""
    pin: ObjectName | None = None
    """Name of an AllocationRevision whose allocation is held exactly."""
