"""Pods of the simulated cluster: they take time to start and to drain, hold their GPUs until they are gone, and die."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np

from steelyard.api import AgenticRLJob, Allocation, Stage
from steelyard.children.rollout import Workload, rollout
from steelyard.twin.events import Events
from steelyard.twin.pods import Meter, Pod
from steelyard.twin.profiles import Cluster as Setup

Slot = tuple[Stage, str]


class Work(Protocol):
    """What the pipeline does when a replica comes or goes."""

    def ready(self, pod: Pod) -> None:
        """It may be given work."""

    def drain(self, pod: Pod) -> bool:
        """It gets no new work; whether it has none left."""

    def lose(self, pod: Pod) -> None:
        """What it holds goes to others."""


class Cluster:
    """Brings the pods to the allocation, with the operator's own rollout."""

    def __init__(
        self, events: Events, job: AgenticRLJob, setup: Setup, work: Work, make: Callable[[Stage, str, int], Pod],
        chance: np.random.Generator,
    ) -> None:  # fmt: skip
        self._events, self._setup, self._work, self._make, self._chance = events, setup, work, make, chance
        self._start_seconds, self._drain_seconds = dict(setup.start_seconds), dict(setup.drain_seconds)
        spec = job.spec
        self._prices = {(stage, name): price for stage in Stage for name, price in spec.stage(stage).profiles.items()}
        self._budget = spec.budget.gpus
        self._target = dict.fromkeys(self._prices, 0)
        self._retired = dict.fromkeys(Stage, Meter())
        self._created = 0
        self._busy = self._again = False
        self.desired = dict.fromkeys(self._prices, 0)
        self.pods: list[Pod] = []
        self.most_gpus = Fraction(0)
        """The most that was ever held at once."""

    def apply(self, allocation: Allocation) -> None:
        """Aim at this allocation from now on. Raises ValueError for a profile that the job does not have."""
        wanted = {(stage, profile): n for stage, profile, n in allocation.entries()}
        if unknown := wanted.keys() - self._prices.keys():
            raise ValueError(f"the job has no such GPU profile: {sorted(unknown)}")
        self._target = {slot: wanted.get(slot, 0) for slot in self._prices}
        self.reconcile()

    def reconcile(self) -> None:
        """One round of the rollout after another, as long as they change anything."""
        self._again = True
        if self._busy:
            return
        self._busy = True
        while self._again:
            self._again = False
            replicas = rollout(self._target, self._workloads(), self._prices, self._budget, self._held())
            for slot, n in replicas.items():
                self._scale(slot, n)
        self._busy = False

    def _workloads(self) -> dict[Slot, Workload]:
        found = {}
        for slot, desired in self.desired.items():
            mine = [pod for pod in self.pods if (pod.stage, pod.profile) == slot]
            alive = [pod for pod in mine if not pod.terminating]
            found[slot] = Workload(
                desired=desired,
                created=len(alive),
                alive=len(alive),
                ready=sum(pod.serves for pod in alive),
                terminating=len(mine) - len(alive),
            )
        return found

    def _held(self) -> Fraction:
        return sum((self._prices[pod.stage, pod.profile] for pod in self.pods), Fraction(0))

    def _scale(self, slot: Slot, n: int) -> None:
        self._again = self._again or self.desired[slot] != n
        self.desired[slot] = n
        mine = [pod for pod in self.pods if (pod.stage, pod.profile) == slot and not pod.terminating]
        for _ in range(n - len(mine)):
            self._create(slot)
        victims = sorted(mine, key=lambda pod: (pod.serves, pod.inflight, -pod.ordinal))
        for pod in victims[: max(len(mine) - n, 0)]:
            self._terminate(pod)

    def _create(self, slot: Slot) -> None:
        self._created += 1
        pod = self._make(*slot, self._created)
        self.pods.append(pod)
        self.most_gpus = max(self.most_gpus, self._held())
        self._start(pod)

    def _start(self, pod: Pod) -> None:
        slower = float(np.exp(self._setup.start_sigma * self._chance.standard_normal()))
        self._events.at(self._events.now + self._start_seconds[pod.stage] * slower, self._started, pod)

    def _started(self, pod: Pod) -> None:
        if pod.terminating:
            return
        now = self._events.now
        pod.start(now)
        if self._setup.hours_between_failures < float("inf"):
            lasts = 3600 * self._setup.hours_between_failures * float(self._chance.exponential())
            self._events.at(now + lasts, self._died, (pod, pod.lives))
        self._work.ready(pod)
        self.reconcile()

    def _died(self, subject: tuple[Pod, int]) -> None:
        pod, life = subject
        if pod.gone or pod.terminating or pod.lives != life:
            return
        self._retire(pod)
        pod.ready_since = None  # before its work is given away, or it would get it back
        self._work.lose(pod)
        self._start(pod)

    def _terminate(self, pod: Pod) -> None:
        idle = pod.ready_since is None
        pod.terminating = True
        if idle or self._work.drain(pod):
            self.remove(pod)
        else:
            self._events.at(self._events.now + self._drain_seconds[pod.stage], self._killed, pod)

    def _killed(self, pod: Pod) -> None:
        if not pod.gone:
            self._work.lose(pod)
            self.remove(pod)

    def remove(self, pod: Pod) -> None:
        """It has nothing left to do."""
        pod.gone = True
        self._retire(pod)
        held = (self._events.now - pod.created) * pod.gpus
        self._retired[pod.stage] += Meter(gpu_seconds=held)
        self.pods.remove(pod)
        self.reconcile()

    def _retire(self, pod: Pod) -> None:
        if pod.ready_since is not None:
            self._retired[pod.stage] += _lasting(pod.meter(self._events.now))

    def meter(self, stage: Stage) -> Meter:
        """All replicas of the stage, gone ones included."""
        now, found = self._events.now, self._retired[stage]
        for pod in self.pods:
            if pod.stage is stage:
                found += Meter(gpu_seconds=(now - pod.created) * pod.gpus)
                if pod.ready_since is not None:
                    found += pod.meter(now)
        return found


def _lasting(meter: Meter) -> Meter:
    """Without what is true of this moment only."""
    return Meter(meter.busy_seconds, meter.occupied_seconds, meter.duty_seconds, meter.replica_seconds)
