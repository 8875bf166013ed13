"""The simulated pipeline: admission, episodes, rewards, training, and the weights' way back to the samplers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.api.status import TrainingStatus
from steelyard.balance.outage import up_since
from steelyard.balance.types import Instant, Rates, Seen
from steelyard.twin.cluster import Cluster
from steelyard.twin.events import Events
from steelyard.twin.flow import Group, Trajectory
from steelyard.twin.jobs import job_of
from steelyard.twin.judging import Judging
from steelyard.twin.pods import Meter, Pod
from steelyard.twin.profiles import Profile
from steelyard.twin.sampler import SamplerPod
from steelyard.twin.scrape import Prometheus, counts
from steelyard.twin.serving import Serving
from steelyard.twin.stages import BusPod, EnvironmentPod, RewardPod, TrainerPod
from steelyard.twin.training import Training
from steelyard.twin.workload import Workload

__all__ = ["START", "Meter", "Pipeline"]

START: Instant = 1_800_000_000.0
"""Where the simulated clock starts."""


class Pipeline:
    """One job on one simulated cluster. The same arguments give the same run, in any process."""

    def __init__(self, profile: Profile, allocation: Allocation, seed: int) -> None:
        self.profile, self.allocation = profile, allocation
        self._job = job_of(profile, allocation)
        self._context_tokens = profile.context_tokens
        self._clock = Events()
        self._workload = Workload(profile, seed)
        self.admitted = self.open = 0
        """Trajectories so far, and those of them that are neither trained nor given up."""
        self._events = 0
        self._tasks: deque[Trajectory] = deque()
        self._free_slots: deque[tuple[EnvironmentPod, int]] = deque()
        self._bus = BusPod(f"{self._job.metadata.name}-bus-0", self._depths)
        self._cluster = Cluster(
            self._clock, self._job, profile.cluster, self, self._make, np.random.default_rng([seed, 1])
        )
        remove = self._cluster.remove
        self._serving = Serving(self._clock, profile.cluster.sync_seconds, self._turn_ended, remove)
        self._training = Training(self._clock, profile, self._serving.publish, self._closed, self._again, remove)
        self._judging = Judging(self._clock, profile, self._training.add, remove)
        self._prometheus = Prometheus(
            self._clock,
            profile.cluster,
            START,
            lambda: [self._bus, *self._cluster.pods],
            np.random.default_rng([seed, 2]),
        )
        self._cluster.apply(allocation)
        self._admit()

    # ---- what others see

    @property
    def now(self) -> Instant:
        return START + self._clock.now

    @property
    def done(self) -> bool:
        return self._clock.stopped

    @property
    def step(self) -> int:
        """Training steps done."""
        return self._training.step

    @property
    def step_ends(self) -> list[Instant]:
        return [START + end for end in self._training.ends]

    @property
    def trained(self) -> int:
        """Trajectories trained."""
        return self._training.trained

    @property
    def failed(self) -> int:
        """Trajectories that came to nothing, those of groups given up included."""
        return self._training.failed

    @property
    def too_old(self) -> int:
        """Trajectories beyond `maxStaleness` at their training: trained and counted, or made anew."""
        return self._training.too_old

    @property
    def events(self) -> int:
        """State changes simulated so far: requests that arrive, start and end, tools and judges that end, steps,
        scrapes of a pod."""
        return self._events + self._judging.events + self._training.step + self._prometheus.scrapes

    @property
    def calendar(self) -> int:
        """Entries of the event calendar so far: one may change several things, or turn out to be void."""
        return self._clock.fired

    @property
    def most_gpus(self) -> float:
        """The most GPUs that pods held at once."""
        return float(self._cluster.most_gpus)

    @property
    def job(self) -> AgenticRLJob:
        """The job with its progress, as the operator would have written it into the status."""
        training = TrainingStatus(step=self.step, steps=self.profile.steps)
        return self._job.model_copy(update={"status": self._job.status.model_copy(update={"training": training})})

    def run_until(self, instant: Instant) -> None:
        """Simulate up to and including `instant`, or to the end of the last step if that comes first."""
        self._clock.run_until(instant - START)

    def apply(self, allocation: Allocation) -> None:
        """As the operator applies it: victims drain, what is new starts as GPUs become free (`children.rollout`)."""
        self.allocation = allocation
        self._cluster.apply(allocation)

    def seen(self, revisions: Sequence[AllocationRevision]) -> Seen:
        """What the operator's informer would hold."""
        pods = self._cluster.pods
        starts = ((pod.stage, None if pod.ready_since is None else START + pod.ready_since) for pod in pods)
        return Seen(self.job, tuple(revisions), counts(self._cluster, START), up_since=up_since(starts))

    def rates(self, window_seconds: float) -> Rates:
        """What Prometheus would answer: scrapes, late and with gaps, never the simulator's truth."""
        return self._prometheus.rates(window_seconds)

    def meters(self) -> Mapping[Stage, Meter]:
        """Exact figures of each stage so far."""
        waiting = {
            Stage.SAMPLER: self._serving.waiting,
            Stage.ENVIRONMENT: len(self._tasks),
            Stage.REWARD_SERVER: self._judging.waiting,
            Stage.TRAINER: self._training.experience.waiting,
        }
        return {stage: self._cluster.meter(stage) + Meter(queue=waiting[stage]) for stage in Stage}

    # ---- admission and episodes

    def _admit(self) -> None:
        """Whole groups, as long as the bound on open trajectories allows (design: staleness by pacing)."""
        profile = self.profile
        size = profile.group_size
        factor = profile.factor(self.step)
        while self.open + size <= profile.most_open:
            group = Group(self.admitted // size, size)
            for _ in range(size):
                self._tasks.append(Trajectory(self.admitted, group, self._workload.draw(self.admitted), factor))
                self.admitted += 1
            self.open += size
        self._play()

    def _play(self) -> None:
        """Give waiting tasks to free slots."""
        tasks, free = self._tasks, self._free_slots
        while tasks and free:
            pod, life = free.popleft()
            if pod.terminating or pod.ready_since is None or pod.lives != life:
                continue
            one = tasks.popleft()
            one.pod = pod
            pod.playing[one] = None
            if one.draw.start:
                pod.tool.enter(self._clock.now)
                self._clock.at(self._clock.now + one.draw.start, self._opened, one)
            else:
                self._ask(one)

    def _opened(self, one: Trajectory) -> None:
        """Its environment is there: the first turn."""
        if one.lost or one.pod is None:
            return
        self._events += 1
        one.pod.tool.leave(self._clock.now)
        self._ask(one)

    def _ask(self, one: Trajectory) -> None:
        """The next turn."""
        self._events += 1
        now, draw, turn = self._clock.now, one.draw, one.turn
        one.context += draw.inputs[turn]
        wanted, room = draw.tokens[turn] * one.factor, self._context_tokens - one.context
        one.wanted = wanted = wanted if wanted < room else max(room, 1.0)
        one.need = one.context + wanted / 2
        if one.pod is not None:
            one.pod.tokens.enter(now)
        self._serving.serve(one)

    def _turn_ended(self, one: Trajectory, now: float) -> None:
        self._events += 2  # a request began to run, and ended
        pod = one.pod
        if pod is None or one.lost:
            return
        pod.tokens.leave(now)
        one.context += one.wanted
        one.generated += one.wanted
        if one.turn + 1 == len(one.draw.tokens) or one.context >= self._context_tokens:
            self._played(one, pod)
        else:
            pod.tool.enter(now)
            self._clock.at(now + one.draw.tools[one.turn], self._tool_ended, one)

    def _tool_ended(self, one: Trajectory) -> None:
        if one.lost or one.pod is None:
            return
        self._events += 1
        one.pod.tool.leave(self._clock.now)
        one.turn += 1
        self._ask(one)

    def _played(self, one: Trajectory, pod: EnvironmentPod) -> None:
        """The episode is over; its outcome goes to the reward server, its slot to the next task."""
        del pod.playing[one]
        one.pod = None
        if one.draw.fails:
            pod.failed += 1
        else:
            pod.ok += 1
        if not pod.terminating:
            self._free_slots.append((pod, pod.lives))
        elif not pod.playing:
            self._cluster.remove(pod)
        self._judging.add(one)
        self._play()

    # ---- training

    def _closed(self, groups: int) -> None:
        """So many groups are trained or given up: others may come in."""
        self.open -= groups * self.profile.group_size
        self._admit()

    def _again(self, old: Trajectory) -> None:
        """Too old to be trained: made anew by the policy of today."""
        draw = self._workload.again(old.index, old.attempt + 1)
        factor = self.profile.factor(self.step)
        self._tasks.append(Trajectory(old.index, old.group, draw, factor, old.attempt + 1))
        self._play()

    # ---- replicas come and go

    def _make(self, stage: Stage, profile: str, ordinal: int) -> Pod:
        name, now, spec = f"{self._job.metadata.name}-{stage}-{profile}-{ordinal}", self._clock.now, self.profile
        if stage is Stage.SAMPLER:
            return SamplerPod(name, profile, spec.sampler, ordinal, now)
        if stage is Stage.ENVIRONMENT:
            return EnvironmentPod(name, profile, spec.concurrency, ordinal, now)
        if stage is Stage.REWARD_SERVER:
            return RewardPod(name, profile, spec.reward.gpus, spec.reward.slots, ordinal, now)
        return TrainerPod(name, profile, int(self._job.spec.gpu_prices[stage][profile]), ordinal, now)

    def ready(self, pod: Pod) -> None:
        """A replica starts to work (`cluster.Work`)."""
        if isinstance(pod, SamplerPod):
            self._serving.ready(pod)
        elif isinstance(pod, EnvironmentPod):
            self._free_slots.extend([(pod, pod.lives)] * pod.slots)
            self._play()
        elif isinstance(pod, RewardPod):
            self._judging.ready(pod)
        elif isinstance(pod, TrainerPod):
            self._training.ready(pod)

    def drain(self, pod: Pod) -> bool:
        """A replica gets no new work; whether it has none left (`cluster.Work`)."""
        if isinstance(pod, SamplerPod):
            self._serving.drain(pod)
        elif isinstance(pod, TrainerPod):
            return self._training.drain(pod)
        return not pod.inflight

    def lose(self, pod: Pod) -> None:
        """What a replica holds is done elsewhere, from the last point that is safe (`cluster.Work`)."""
        if isinstance(pod, SamplerPod):
            self._serving.lose(pod)
        elif isinstance(pod, EnvironmentPod):
            for one in pod.playing:
                one.lost = True
            self._tasks.extendleft(one.anew() for one in reversed(pod.playing))
            pod.playing = {}
            self._play()
        elif isinstance(pod, RewardPod):
            self._judging.lose(pod)
        elif isinstance(pod, TrainerPod):
            self._training.lose(pod)

    def _depths(self) -> tuple[float, float, float]:
        """Messages in each buffer: until they are acknowledged, those in somebody's hands too."""
        playing, judged = (
            sum(pod.inflight for pod in self._cluster.pods if pod.stage is stage)
            for stage in (Stage.ENVIRONMENT, Stage.REWARD_SERVER)
        )
        uncommitted = self.step % self._job.spec.checkpoints.every_steps * self.profile.batch
        return len(self._tasks) + playing, self._judging.waiting + judged, self._training.held + uncommitted
