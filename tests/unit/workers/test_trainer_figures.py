"""What a step did, under the names that people chart."""

import pytest

from steelyard_workers.trainer.figures import StepFigures, Update
from tests.unit.workers.experience import experience

UPDATE = Update(
    loss=0.5,
    gradient_norm=1.0,
    entropy=2.0,
    kl=0.01,
    logp_difference=0.02,
    clipped_ratio=0.1,
    policy_tokens=12,
    total_tokens=20,
)


def test_shares_and_means_are_over_the_trajectories_of_the_step() -> None:
    cut = experience(0, 0, reward=1.0).model_copy(update={"truncated": True})
    groups = [[cut, experience(0, 1)], [experience(1, 0), experience(1, 1)]]
    figures = StepFigures(
        step=3,
        groups=groups,
        lags=[0, 1, 1, 2],
        update=UPDATE,
        learning_rate=1e-6,
        requeued=2,
        seconds=4.0,
        waited_seconds=1.0,
        interval_seconds=None,
    )
    scalars = figures.scalars
    assert (scalars["reward_mean"], scalars["zero_std_ratio"], scalars["truncated_ratio"]) == (0.25, 0.5, 0.25)
    assert (scalars["staleness_versions"], scalars["dropped"], scalars["completion_tokens"]) == (1, 2, 3)
    assert "tokens_per_gpu_second" not in scalars, "unknown for the first step"


@pytest.mark.parametrize(("interval", "want"), [(5.0, 4.0), (10.0, 2.0)])
def test_the_rate_is_that_of_the_interval_between_steps(interval: float, want: float) -> None:
    figures = StepFigures(3, [[experience()]], [0], UPDATE, 1e-6, 0, 4.0, 1.0, interval)
    assert figures.scalars["tokens_per_gpu_second"] == want
