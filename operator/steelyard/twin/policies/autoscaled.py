"""A HorizontalPodAutoscaler for each stage, fed with occupancy, with GPU duty cycle, or by KEDA with queue lengths."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard.api import Allocation, Stage
from steelyard.balance.types import Instant
from steelyard.twin.engine import Meter, Pipeline
from steelyard.twin.policies import hpa
from steelyard.twin.policies.split import Units
from steelyard.twin.policies.static import initial_workload
from steelyard.twin.profiles import Profile
from steelyard.twin.run import run

TARGET = 0.75
"""Occupancy or duty cycle that an autoscaler steers to."""
WINDOW_SECONDS = 60.0
"""Untuned, means are taken over so long, the usual `rate(...[1m])`."""
WINDOW_STEPS = 3
"""Tuned, over so many training steps: a trainer works and waits in turn."""
GPU_STAGES = (Stage.SAMPLER, Stage.REWARD_SERVER, Stage.TRAINER)

Counts = Mapping[Stage, int]
"""Stage -> replicas; for the trainer, blocks of GPUs."""


@dataclass(frozen=True)
class Look:
    """One stage as its autoscaler sees it."""

    stage: Stage
    replicas: int
    """What was asked for last."""
    ready: int
    before: Meter
    """A window ago."""
    now: Meter
    held: float
    """Units that waited for it or were served by it, mean over the window."""


Recommend = Callable[[Look], int]


@dataclass(frozen=True)
class Targets:
    """How the autoscalers of one policy are configured."""

    recommend: Recommend
    window_seconds: float = WINDOW_SECONDS


@dataclass
class Autoscaled:
    """Each stage on its own; whoever finds no free GPU waits as a pending pod."""

    profile: Profile
    start: Units
    targets: Targets
    interval_seconds: float = hpa.SYNC_SECONDS
    _history: deque[tuple[Instant, Mapping[Stage, Meter]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._scheduler = Scheduler(self.profile, _counts(self.start))
        most = max(self.profile.trainer.sizes) // self.profile.trainer.block
        prices = self._scheduler.prices
        self._behaviors = {
            stage: hpa.Behavior(1, most if stage is Stage.TRAINER else self.profile.gpus // prices[stage])
            for stage in GPU_STAGES
        }

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        meters = pipeline.meters()
        self._history.append((pipeline.now, meters))
        while len(self._history) > 1 and self._history[1][0] <= pipeline.now - self.targets.window_seconds:
            self._history.popleft()
        before = self._history[0][1]
        asked = {}
        for stage in GPU_STAGES:
            replicas = self._scheduler.asked(stage)
            ready = meters[stage].ready
            if stage is Stage.TRAINER:  # one pod with several blocks of GPUs
                ready *= self._scheduler.granted[stage]
            held = [seen[stage].queue + seen[stage].serving for _, seen in self._history]
            look = Look(stage, replicas, ready, before[stage], meters[stage], sum(held) / len(held))
            asked[stage] = self._behaviors[stage].scale(pipeline.now, replicas, self.targets.recommend(look))
        return self._scheduler.schedule(asked).allocation(self.profile)


@dataclass
class Scheduler:
    """Which of the pods that were asked for have their GPUs; the others are pending, the oldest first."""

    profile: Profile
    granted: dict[Stage, int]
    pending: list[Stage] = field(default_factory=list)

    @property
    def prices(self) -> Counts:
        """GPUs of one unit of each stage."""
        return {
            Stage.SAMPLER: self.profile.sampler.gpus,
            Stage.REWARD_SERVER: self.profile.reward.gpus,
            Stage.TRAINER: self.profile.trainer.block,
        }

    def asked(self, stage: Stage) -> int:
        return self.granted[stage] + self.pending.count(stage)

    def schedule(self, asked: Counts) -> Units:
        """Take away what is no longer asked for, pending pods first, then start whoever fits, in order of creation."""
        for stage, wanted in asked.items():
            for _ in range(self.asked(stage) - wanted):
                if stage in self.pending:
                    del self.pending[-1 - self.pending[::-1].index(stage)]
                else:
                    self.granted[stage] -= 1
            self.pending.extend([stage] * (wanted - self.asked(stage)))
        prices = self.prices
        free = self.profile.gpus - sum(prices[stage] * n for stage, n in self.granted.items())
        waiting, self.pending = self.pending, []
        for stage in waiting:
            if prices[stage] <= free:
                free -= prices[stage]
                self.granted[stage] += 1
            else:
                self.pending.append(stage)
        return Units(self.granted[Stage.SAMPLER], self.granted[Stage.REWARD_SERVER], self.granted[Stage.TRAINER])


def untuned(profile: Profile) -> dict[str, Targets]:
    """Autoscalers by policy, with the targets a first attempt would have."""
    blocks = max(profile.trainer.sizes) // profile.trainer.block
    holds = {
        Stage.SAMPLER: float(profile.sampler.max_num_seqs),
        Stage.REWARD_SERVER: float(profile.reward.slots),
        Stage.TRAINER: 2.0 * profile.batch / blocks,
    }
    shares = dict.fromkeys(GPU_STAGES, TARGET)
    return {
        "hpa-occupancy": Targets(_occupancy(shares)),
        "hpa-duty": Targets(_duty(shares)),
        "keda": Targets(_queue(holds)),
    }


def tuned(profile: Profile, seed: int, start: Units) -> dict[str, Targets]:
    """Autoscalers whose targets are what `start` shows under the initial workload: there they change nothing."""
    watch = Watch()
    done = run(initial_workload(profile), watch, seed, start.allocation(profile))
    window = WINDOW_STEPS * done.seconds / len(done.step_ends)
    last, counts = watch.seen[-1], _counts(start)
    occupied = {stage: last[stage].occupied_seconds / last[stage].replica_seconds for stage in GPU_STAGES}
    duty = {stage: last[stage].duty_seconds / last[stage].replica_seconds for stage in GPU_STAGES}
    holds = {
        stage: sum(one[stage].queue + one[stage].serving for one in watch.seen) / len(watch.seen) / counts[stage]
        for stage in GPU_STAGES
    }
    return {
        "hpa-occupancy": Targets(_occupancy(occupied), window),
        "hpa-duty": Targets(_duty(duty), window),
        "keda": Targets(_queue(holds), window),
    }


@dataclass
class Watch:
    """Changes nothing and notes what every stage shows."""

    interval_seconds: float = hpa.SYNC_SECONDS
    seen: list[Mapping[Stage, Meter]] = field(default_factory=list)

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        self.seen.append(pipeline.meters())
        return None


def _occupancy(targets: Mapping[Stage, float]) -> Recommend:
    """From the share of its slots, or of its KV cache, that a replica uses."""
    return lambda look: _by_share(look, look.now.occupied_seconds - look.before.occupied_seconds, targets[look.stage])


def _duty(targets: Mapping[Stage, float]) -> Recommend:
    """From the share of time in which a replica does anything."""
    return lambda look: _by_share(look, look.now.duty_seconds - look.before.duty_seconds, targets[look.stage])


def _queue(targets: Mapping[Stage, float]) -> Recommend:
    """From what waits for a stage or is served by it, as KEDA would read it from the bus."""
    return lambda look: hpa.by_total(look.replicas, look.held, targets[look.stage])


def _by_share(look: Look, used_seconds: float, target: float) -> int:
    seconds = look.now.replica_seconds - look.before.replica_seconds
    share = used_seconds / seconds if seconds > 0 else None
    return hpa.by_pods(look.replicas, [share] * look.ready, max(look.replicas - look.ready, 0), target)


def _counts(units: Units) -> dict[Stage, int]:
    return {Stage.SAMPLER: units.sampler, Stage.REWARD_SERVER: units.reward, Stage.TRAINER: units.blocks}
