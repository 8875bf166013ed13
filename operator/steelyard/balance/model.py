"""The pipeline as a few numbers, and what throughput it promises for an allocation.

`Workload` is what one trajectory asks for and drifts with the policy; `Capacities` is what one replica can do. They are
kept apart because a verdict compares the old allocation under the *old* capacities and the *new* workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np

from steelyard.api import Stage
from steelyard.balance.closed_loop import Decoding, TokenLatencies, TokenLatency, closed_loop
from steelyard.balance.stairs import Amount, Floats, Numbers, cleaned, greater, lesser
from steelyard.balance.trainer_curve import TrainerCurve

TINY = 1e-9
"""Seconds or tokens below which a trajectory asks nothing of a stage."""

SERVING = (Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)
"""Stages with a service rate; the environment is a delay in their loop."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A positive quantity and its relative standard error."""

    value: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Token latency seen at one load; the weight is the number of tokens behind it."""

    running: float
    latency: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Workload:
    """What one trained trajectory asks of the stages."""

    tokens: float = 0.0
    """Tokens generated per episode."""
    outside_seconds: float = 0.0
    """Slot seconds of an episode outside the samplers: tools and the environment's own work."""
    waiting_seconds: float = 0.0
    """Slot seconds of an episode in which it waited for samplers, as measured."""
    overhead_seconds: float = 0.0
    """The part of `waiting_seconds` that token latency does not explain: queues, prefill, HTTP."""
    error: float = 0.0
    """Relative standard error of the slot seconds."""
    visits: Mapping[Stage, float] = field(default_factory=dict)
    """Episodes started, trajectories scored and samples trained per trajectory that ends up trained."""

    def visits_of(self, stage: Stage) -> float:
        return max(self.visits.get(stage, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class Capacities:
    """What one replica can do, by profile."""

    rates: Mapping[Stage, Mapping[str, Estimate]] = field(default_factory=dict)
    """Units per second of one replica: tokens (sampler), trajectories (reward server), samples (trainer)."""
    latency: Mapping[str, TokenLatency] = field(default_factory=dict)
    """Sampler profiles whose token latency is identified; `rates` then holds the capacity that follows from it."""
    loads: Mapping[str, Load] = field(default_factory=dict)
    """Mean load of each sampler profile in the window; a later window under another one identifies the latency."""
    slots: float = 1.0
    """Episodes that one environment replica runs at once."""
    sync_seconds: float = 0.0
    """Sampler seconds lost at each new policy version."""
    trainer_seconds: float = 0.0
    """Trainer seconds per sample, so that trajectories in training can be told from those still open."""
    trainer_curve: TrainerCurve = field(default_factory=TrainerCurve)
    """What more trainer replicas add; `rates` holds the rate of one."""


class Split(Protocol):
    """Stage -> profile -> replicas: an `Allocation`, or a plain mapping where one is asked for often."""

    def __getitem__(self, stage: Stage, /) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the job's algorithm admits."""

    batch: int
    open: int
    """Most trajectories between admission and training: (maxStaleness + 1) · batch."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Throughput that the model promises for an allocation."""

    throughput: float
    """Trajectories trained per second."""
    binding: Stage
    limits: Mapping[Stage, float]
    """What each stage alone would allow."""


@dataclass(frozen=True, slots=True)
class Model:
    """Everything needed to promise a throughput."""

    workload: Workload
    capacities: Capacities
    bounds: Bounds
    catching_up: Mapping[Stage, float] = field(default_factory=dict)
    """Units per second that a stage must spend on its backlog, on top of what flows in."""

    def knows(self, stage: Stage, profile: str) -> bool:
        return profile in self.capacities.rates.get(stage, {})

    def rate(self, stage: Stage, counts: Mapping[str, int]) -> float:
        """Trained trajectories per second that `counts` replicas of a stage with a service rate could carry."""
        known = self.capacities.rates.get(stage, {})
        units = sum(known[profile].value * n for profile, n in counts.items() if profile in known)
        return max(self.carried(stage, units, float(sum(counts.values()))), 0.0) if units > 0 else 0.0

    def rates(self, stage: Stage, replicas: Mapping[str, range], slots: float) -> dict[str, Floats]:
        """The same for each number of `replicas` (all at least 1) of each profile, all of them known; a sampler carries
        no more than the closed loop with `slots` episodes brings it. Never negative, never NaN."""
        if not replicas:
            return {}
        counts = [np.arange(of.start, of.stop, dtype=np.float64) for of in replicas.values()]
        together, lengths = np.concatenate(counts), [len(one) for one in counts]
        each = [self.capacities.rates[stage][profile].value for profile in replicas]
        with np.errstate(all="ignore"):
            carried = self.carried(stage, np.repeat(each, lengths) * together, together)
            if stage is Stage.SAMPLER:
                carried = np.minimum(carried, self._looped_each(dict(zip(replicas, counts, strict=True)), slots))
        rates, ends = cleaned(carried), accumulate(lengths, initial=0)
        return {profile: rates[start:end] for profile, (start, end) in zip(replicas, pairwise(ends), strict=True)}

    def _looped_each(self, counts: Mapping[str, Floats], slots: float) -> Floats:
        """What the closed loop brings samplers, profile after profile; in one go where all latencies are identified."""
        known = {profile: one for profile in counts if (one := self.identified(profile)) is not None}
        if len(known) < len(counts):
            alone = {profile: self.looped(of, known.get(profile), slots) for profile, of in counts.items()}
            return np.concatenate([np.broadcast_to(alone[profile], of.shape) for profile, of in counts.items()])
        lengths = [len(of) for of in counts.values()]
        figures = np.repeat([(one.alpha, one.beta, one.capacity) for one in known.values()], lengths, axis=0)
        looped = self.looped(np.concatenate(list(counts.values())), TokenLatencies(*figures.T), slots)
        return np.asarray(looped)

    def carried(self, stage: Stage, units: Amount, replicas: Amount) -> Amount:
        """What `units` a second of `replicas` ranks or servers carry; negative when a backlog asks for more.

        Weight sync is lost capacity: each version costs `sync_seconds`, and versions come with the throughput.
        """
        if stage is Stage.SAMPLER:
            tokens = self.workload.tokens * self.workload.visits_of(Stage.ENVIRONMENT) + TINY
            return units / (tokens + units * (self.capacities.sync_seconds / self.bounds.batch))
        if stage is Stage.TRAINER:
            units = units * self.capacities.trainer_curve.efficiency(replicas)
        return (units - self.catching_up.get(stage, 0.0)) / self.workload.visits_of(stage)

    def loop(self, samplers: Mapping[str, int], slots: float) -> float:
        """Trained trajectories per second of the closed loop between `slots` episodes and the samplers."""
        return float(self._loop(*self._serving(samplers), slots))

    def _loop(
        self,
        replicas: Numbers,
        latency: Decoding | None,
        slots: float,
        training_seconds: float = 0.0,
        slower: Numbers = 1.0,
    ) -> Numbers:
        """`training_seconds`: how long a trained trajectory keeps one of the `slots` from the next episode."""
        workload, visits = self.workload, self.workload.visits_of(Stage.ENVIRONMENT)
        kept = training_seconds / visits
        if latency is None:
            seconds = (workload.outside_seconds + workload.waiting_seconds) * slower + kept + TINY
            return max(slots, 0.0) / seconds / visits
        outside = (workload.outside_seconds + workload.overhead_seconds) * slower + kept
        return closed_loop(max(slots, 0.0), replicas, workload.tokens, outside, latency) / visits

    def identified(self, profile: str) -> TokenLatency | None:
        """Token latency of a sampler profile, None while it is not known or hardly asked for."""
        latency = self.capacities.latency.get(profile)
        return latency if latency is not None and self.workload.tokens * latency.alpha > TINY else None

    def _serving(self, samplers: Mapping[str, int]) -> tuple[float, TokenLatency | None]:
        """Replicas in units of the main profile, and its token latency when it is identified."""
        latency = self.identified(main_profile(samplers))
        if latency is None:
            return 0.0, None
        known = self.capacities.latency
        alike = sum(known[profile].capacity * n for profile, n in samplers.items() if profile in known)
        return alike / latency.capacity, latency

    def useful_slots(self, throughput: float) -> float:
        """Episodes that admission leaves open while `throughput` is trained: the rest is being collected or trained."""
        training = self.bounds.batch * min(throughput * self.capacities.trainer_seconds, 1.0)
        return max(self.bounds.open - self.bounds.batch / 2 - training, 1.0)

    def episodes(self, samplers: Mapping[str, int], slots: float, ceiling: float) -> float:
        """Throughput of the closed loop, at most `ceiling`: as more is trained, admission leaves fewer slots useful."""
        return min(ceiling, float(self.looped(*self._serving(samplers), slots)))

    def looped(self, replicas: Numbers, latency: Decoding | None, slots: float, slower: Numbers = 1.0) -> Numbers:
        """Throughput of the closed loop with `slots` episodes, or with those of `useful_slots` as they fall with it.

        `slower`: a factor on the slot seconds of an episode. The loops with all slots, with those that fall with the
        throughput, and with the fewest are each the fixed point of a function that falls with the throughput, so the
        least of the first and the greater of the others is the fixed point of all together.
        """
        batch, busy = self.bounds.batch, self.capacities.trainer_seconds
        most = self.bounds.open - batch / 2
        mine = self._loop(replicas, latency, slots, slower=slower)
        line = self._loop(replicas, latency, most, batch * busy, slower)
        floor = self._loop(replicas, latency, max(most - batch, 1.0), slower=slower)
        return lesser(mine, greater(line, floor))

    def throughput(self, split: Split) -> float:
        """Trajectories trained per second under `split`: what `promise` says, without why."""
        carried = min(self.rate(stage, split[stage]) for stage in SERVING)
        slots = sum(split[Stage.ENVIRONMENT].values()) * self.capacities.slots
        return self.episodes(split[Stage.SAMPLER], slots, carried)

    def promise(self, allocation: Split) -> Promise:
        """Throughput of `allocation` and the stage that binds it."""
        limits = {stage: self.rate(stage, allocation[stage]) for stage in SERVING}
        others = min(limits.values())
        slots = sum(allocation[Stage.ENVIRONMENT].values()) * self.capacities.slots
        looped = self.episodes(allocation[Stage.SAMPLER], slots, others)
        limits[Stage.ENVIRONMENT] = self.loop(allocation[Stage.SAMPLER], min(slots, self.useful_slots(looped)))
        if looped < others:
            return Promise(looped, self._culprit(allocation, slots, looped), limits)
        return Promise(others, min(limits, key=lambda stage: limits[stage]), limits)

    def _culprit(self, allocation: Split, slots: float, looped: float) -> Stage:
        """The closed loop binds: would twice the slots or twice the samplers help more?"""
        samplers = allocation[Stage.SAMPLER]
        open_slots = self.useful_slots(looped)
        more_slots = self.loop(samplers, min(2 * slots, open_slots))
        more_samplers = self.loop({profile: 2 * n for profile, n in samplers.items()}, min(slots, open_slots))
        return Stage.ENVIRONMENT if more_slots >= more_samplers else Stage.SAMPLER


def main_profile(counts: Mapping[str, int]) -> str:
    """The profile with the most replicas, "" when there is none."""
    return max(counts, key=lambda profile: (counts[profile], profile), default="")
