"""How far the learning is, from what trainer and reward servers export."""

from __future__ import annotations

from steelyard.api import Stage, TrainingStatus
from steelyard.balance import signals
from steelyard.balance.types import Instant, Rates, Series
from steelyard.status.figures import figure, moment
from steelyard.status.tick import Tick


def training(tick: Tick) -> TrainingStatus:
    """What is not measured now keeps its last value: a trainer that restarts has not unlearnt."""
    before = tick.view.job.status.training or TrainingStatus()
    trainers = [pod.name for pod in tick.view.pods if pod.stage == Stage.TRAINER.value]
    servers = [pod.name for pod in tick.view.pods if pod.stage == Stage.REWARD_SERVER.value]
    step, ended = _step(tick.rates, trainers), _last_step(tick.rates, trainers)
    steps = tick.job.spec.algorithm.steps
    return TrainingStatus(
        step=steps if tick.complete else before.step if step is None else int(step),
        steps=steps,
        reward=figure(_mean_reward(tick.rates, servers)) or before.reward,
        last_step_time=moment(ended) if ended else before.last_step_time,
    )


def _step(rates: Rates, pods: list[str]) -> float | None:
    levels = [
        series.samples[-1] for pod in pods for series in rates.series(signals.POLICY_VERSION, pod) if series.samples
    ]
    return max(levels)[1] if levels else None


def _last_step(rates: Rates, pods: list[str]) -> Instant | None:
    """When the trainer's count of steps last rose."""
    rises = [
        at
        for pod in pods
        for series in rates.series(signals.STEP_COUNT, pod)
        for (_, before), (at, after) in zip(series.samples, series.samples[1:], strict=False)
        if after > before
    ]
    return max(rises, default=None)


def _mean_reward(rates: Rates, pods: list[str]) -> float | None:
    scored = sum(_increase(series) for pod in pods for series in rates.series(signals.REWARD_COUNT, pod))
    total = sum(_increase(series) for pod in pods for series in rates.series(signals.REWARD_SUM, pod))
    return total / scored if scored > 0 else None


def _increase(series: Series) -> float:
    """From first to last sample; the sum of rewards may fall, so a counter's rule for resets does not hold here."""
    return series.samples[-1][1] - series.samples[0][1] if len(series.samples) > 1 else 0.0
