"""Jobs with many profiles, replicas and GPUs, each with a model: for the benchmarks."""

from __future__ import annotations

from fractions import Fraction

from steelyard.api import AgenticRLJobSpec, Allocation, Stage
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.model import SERVING, Bounds, Capacities, Estimate, Model, Workload
from tests.builders import a_job

SIZES = [Fraction(size) for size in ("1/8", "1/4", "1/2", "1", "2", "4", "8", "16", "24", "32")]
"""GPUs of one replica, by profile."""
BATCH = 512


def a_large_spec(gpus: int, profiles: int, replicas: int) -> AgenticRLJobSpec:
    """Every stage that serves may have each of `profiles` profiles and 1 to `replicas` replicas; more than 8 and 1,000
    are more than the API admits."""
    template = {"spec": {"containers": [{"name": "worker", "resources": {"requests": {"cpu": 4, "memory": "32Gi"}}}]}}
    stages = ("sampler", "environment", "rewardServer", "trainer")
    templates = {f"stages.{stage}.template": template for stage in stages}
    spec = a_job({"budget.gpus": gpus, "stages.environment.concurrency": 64, **templates}).spec
    one = spec.stages.sampler.gpu_profiles[0]
    shapes = tuple(one.model_copy(update={"name": f"p{n}", "gpus": SIZES[n]}) for n in range(profiles))
    wide = {}
    for stage in Stage:
        of = spec.stage(stage)
        update: dict[str, object] = {"replicas": of.replicas.model_copy(update={"min": 1, "max": replicas})}
        wide[stage.attribute] = of.model_copy(update=update | ({"gpu_profiles": shapes} if stage in SERVING else {}))
    return spec.model_copy(update={"stages": spec.stages.model_copy(update=wide)})


def a_large_model(profiles: int, variant: int = 0) -> Model:
    """Larger profiles are faster, and dearer for what they do; `variant` makes jobs differ."""
    sizes = [float(size) for size in SIZES[:profiles]]
    latency = {f"p{n}": TokenLatency(0.02 * size**-0.2, 0.0005, 64 * (n + 1)) for n, size in enumerate(sizes)}
    rates = {
        Stage.SAMPLER: {name: Estimate(one.capacity, 0.05) for name, one in latency.items()},
        Stage.REWARD_SERVER: {f"p{n}": Estimate((1 + variant % 7) * size**0.9, 0.05) for n, size in enumerate(sizes)},
        Stage.TRAINER: {f"p{n}": Estimate(40 * size**0.95, 0.05) for n, size in enumerate(sizes)},
    }
    return Model(
        Workload(tokens=400 + variant % 100, outside_seconds=4.0, overhead_seconds=0.1, error=0.05),
        Capacities(rates, latency, slots=64, sync_seconds=0.5, trainer_seconds=0.01),
        Bounds(batch=BATCH, open=3 * BATCH),
    )


def where_it_is() -> Allocation:
    """A small start, from which a large job has far to go."""
    return Allocation.of(
        {
            Stage.SAMPLER: {"p3": 20},
            Stage.ENVIRONMENT: {"default": 10},
            Stage.REWARD_SERVER: {"p3": 20},
            Stage.TRAINER: {"p3": 1},
        }
    )
