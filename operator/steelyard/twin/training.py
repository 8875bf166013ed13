"""The trainer: steps on complete groups, one at a time, whatever comes and goes around it."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.twin.events import Events
from steelyard.twin.experience import Experience
from steelyard.twin.flow import Group, Trajectory
from steelyard.twin.pods import Pod
from steelyard.twin.profiles import Profile
from steelyard.twin.stages import TrainerPod


class Training:
    """All steps of one run."""

    def __init__(
        self,
        clock: Events,
        profile: Profile,
        published: Callable[[int], None],
        closed: Callable[[int], None],
        again: Callable[[Trajectory], None],
        remove: Callable[[Pod], None],
    ) -> None:
        self._clock, self._profile = clock, profile
        self._published, self._closed, self._again, self._remove = published, closed, again, remove
        self._trainers: list[TrainerPod] = []
        self.experience = Experience()
        self.step = self.trained = self.failed = self.too_old = 0
        self.ends: list[float] = []

    @property
    def held(self) -> int:
        """Scored trajectories that no step has finished."""
        return self.experience.waiting + sum(pod.inflight for pod in self._trainers)

    def add(self, one: Trajectory) -> None:
        """A trajectory comes scored, or dead."""
        hopeless = self.experience.add(one)
        if hopeless is not None:
            self.failed += self._profile.group_size
            for pod in self._trainers[:1]:
                pod.failed += self._profile.group_size
            self._closed(1)
        self._begin()

    def ready(self, pod: TrainerPod) -> None:
        self._trainers.append(pod)
        pod.version = self.step
        self._begin()

    def drain(self, pod: TrainerPod) -> bool:
        """It finishes its step and makes its state durable, so it is never done at once."""
        if pod.idle:
            self._save(pod)
        return False

    def lose(self, pod: TrainerPod) -> None:
        """Its step came to nothing."""
        self._trainers.remove(pod)
        self.experience.give_back(pod.groups)
        pod.groups = []

    def _begin(self) -> None:
        """The next step, when the trainer is free and a batch of complete groups is there."""
        if not all(pod.idle for pod in self._trainers):
            return  # also while the one before it finishes its step
        pod = next((pod for pod in self._trainers if pod.serves), None)
        if pod is None:
            return
        if self._profile.requeue_stale:
            self._requeue(pod)
        groups = self.experience.take(self._profile.prompts_per_step)
        if groups is None:
            return
        pod.groups = groups
        pod.busy.enter(self._clock.now)
        self._clock.at(self._clock.now + self._seconds(pod, groups), self._ended, (pod, pod.lives))

    def _seconds(self, pod: TrainerPod, groups: list[Group]) -> float:
        trainer, mean = self._profile.trainer, self._profile.mean_tokens
        work: float = sum((one.generated / mean) ** trainer.exponent for group in groups for one in group.trainable)
        return trainer.step_seconds + trainer.gpu_seconds * work / trainer.speed(pod.gpus)

    def _requeue(self, pod: TrainerPod) -> None:
        for old in self.experience.too_old(self.step, self._profile.max_staleness):
            pod.stale += 1
            self.too_old += 1
            self._again(old)

    def _ended(self, subject: tuple[TrainerPod, int]) -> None:
        pod, life = subject
        if pod.gone or pod.ready_since is None or pod.lives != life:
            return
        groups, pod.groups = pod.groups, []
        pod.busy.leave(self._clock.now)
        lags = [self.step - one.version for group in groups for one in group.trainable]
        dead = len(groups) * self._profile.group_size - len(lags)
        self.too_old += sum(lag > self._profile.max_staleness for lag in lags)
        self.trained += len(lags)
        self.failed += dead
        self.step += 1
        self.ends.append(self._clock.now)
        pod.ok += len(lags)
        pod.steps += 1
        pod.version = self.step
        if self.step >= self._profile.steps:
            self._clock.stopped = True
        if pod.terminating:
            self._save(pod)
        self._published(self.step)
        self._closed(len(groups))
        self._begin()

    def _save(self, pod: TrainerPod) -> None:
        """A trainer on its way out makes its state durable."""
        pod.saving = True
        self._clock.at(self._clock.now + self._profile.cluster.checkpoint_seconds, self._saved, pod)

    def _saved(self, pod: TrainerPod) -> None:
        if not pod.gone:
            self._trainers.remove(pod)
            self._remove(pod)
            self._begin()
