"""What is known beyond the present window: what the ledger remembers, and what to expect of profiles never tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, log

from steelyard.api import GpuProfile, Stage
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.demand import explained_by_length
from steelyard.balance.model import Estimate, Load
from steelyard.balance.trainer_curve import TrainerSize

PRIOR_ERROR = 0.3
"""Of a profile never tried, on hardware of another kind."""
SCALING_ERROR = 0.15
"""Of the exponent by which the same devices are expected to scale with their number."""
LEDGER_ERROR = 1.5
"""An older measurement is trusted less: its error is multiplied."""


@dataclass(frozen=True)
class Remembered:
    """The model of one stage at the time when one of its profiles was measured."""

    rates: Mapping[str, Estimate]
    """Of all profiles."""
    tokens: float = 0.0
    """Generated tokens of a trajectory at that time; 0 where that is not known."""


@dataclass(frozen=True)
class Known:
    """What the ledger remembers of earlier windows."""

    rates: Mapping[Stage, Mapping[str, Remembered]] = field(default_factory=dict)
    """Stage -> profile -> when it was measured last."""
    latency: Mapping[str, TokenLatency] = field(default_factory=dict)
    """The newest token latency of every sampler profile."""
    loads: Mapping[str, Sequence[Load]] = field(default_factory=dict)
    """Sampler profile -> loads it was seen under."""
    trainer_sizes: Mapping[str, Sequence[TrainerSize]] = field(default_factory=dict)
    """Trainer profile -> what it did at each size, oldest first."""


NOTHING = Known()


def remembered(
    stage: Stage, known: Mapping[str, Remembered], now: Mapping[str, Estimate], tokens: float
) -> dict[str, Estimate]:
    """Profiles that ran before. Longer trajectories take judges and trainers longer, whatever the profile: what became
    of the one that runs now, as far as their length explains it, became of the others too."""
    found = {}
    for name, then in known.items():
        value, error = then.rates[name].value, then.rates[name].error * LEDGER_ERROR
        beside = next((other for other in now if other in then.rates and then.rates[other].value > 0), None)
        if beside is not None and stage is not Stage.SAMPLER and then.tokens > 0:
            value *= explained_by_length(now[beside].value / then.rates[beside].value, tokens / then.tokens)
            error = hypot(error, now[beside].error)
        found[name] = Estimate(value, min(error, 2.0))
    return found


def aged_latencies(profiles: Mapping[str, TokenLatency]) -> dict[str, TokenLatency]:
    return {
        name: TokenLatency(one.alpha, one.beta, one.most, min(one.error * LEDGER_ERROR, 2.0))
        for name, one in profiles.items()
    }


def with_priors(
    profiles: Mapping[str, Estimate], expected: Mapping[str, float], shapes: Mapping[str, GpuProfile]
) -> dict[str, Estimate]:
    """Profiles never tried get the rate of the best-known one, times the relative speed expected of them."""
    usable = {name: one for name, one in profiles.items() if name in expected or not expected}
    known = min(usable, key=lambda name: (usable[name].error, name), default=None)
    if known is None or known not in expected:
        return usable
    for name, speed in expected.items():
        if name not in usable:
            base, error = usable[known], _prior_error(shapes[known], shapes[name])
            usable[name] = Estimate(base.value * speed / expected[known], hypot(base.error, error))
    return usable


def _prior_error(known: GpuProfile, other: GpuProfile) -> float:
    """More or fewer of the same devices are much less of a guess than devices of another kind."""
    alike = known.resources.keys() == other.resources.keys() and known.memory_percent == other.memory_percent
    if not alike or 0 in (known.gpus, other.gpus) or known.gpus == other.gpus:
        return PRIOR_ERROR
    return min(SCALING_ERROR * abs(log(other.gpus / known.gpus)), PRIOR_ERROR)


def latency_priors(latency: Mapping[str, TokenLatency], rates: Mapping[str, Estimate]) -> dict[str, TokenLatency]:
    """Once one profile's token latency is identified, those expected to be slower or faster are so at every load."""
    known = min(latency, key=lambda name: (latency[name].error, name), default=None)
    if known is None:
        return {}
    base = latency[known]
    priors = {
        name: TokenLatency(base.alpha / ratio, base.beta / ratio, base.most, one.error)
        for name, one in rates.items()
        if (ratio := one.value / base.capacity) > 0
    }
    return {**priors, **latency}
