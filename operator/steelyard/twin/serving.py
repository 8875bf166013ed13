"""The samplers together: who serves which turn, what waits while there is none, and the weights' way to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

from steelyard.twin.events import Events
from steelyard.twin.flow import Trajectory
from steelyard.twin.pods import Pod
from steelyard.twin.sampler import SamplerPod


class Serving:
    """All samplers that take requests. `turn_ended` and `remove` are told what becomes of turns and of drained pods."""

    def __init__(
        self,
        clock: Events,
        sync_seconds: float,
        turn_ended: Callable[[Trajectory, float], None],
        remove: Callable[[Pod], None],
    ) -> None:
        self._clock, self._sync_seconds = clock, sync_seconds
        self._turn_ended, self._remove = turn_ended, remove
        self._pods: list[SamplerPod] = []
        self._unserved: deque[Trajectory] = deque()
        self._version = 0

    @property
    def waiting(self) -> int:
        """Requests that no sampler is there for."""
        return len(self._unserved)

    def serve(self, one: Trajectory) -> None:
        """The next turn, from the sampler with the fewest requests."""
        pods = self._pods
        if not pods:
            self._unserved.append(one)
            return
        best = pods[0]
        least = best.held
        for pod in pods:
            if pod.held < least:
                best, least = pod, pod.held
        now = self._clock.now
        if best.take(one, now):
            self._clock.at(best.due, self._turns_end, best)

    def _turns_end(self, pod: SamplerPod) -> None:
        now = self._clock.now
        if pod.due != now:
            return  # it was set anew since
        ended = pod.end(now)
        if pod.due < inf:
            self._clock.at(pod.due, self._turns_end, pod)
        for one in ended:
            self._turn_ended(one, now)
        if pod.terminating and not pod.held and not pod.gone:
            self._remove(pod)

    def publish(self, version: int) -> None:
        """Every sampler takes the new weights, and generates nothing meanwhile."""
        self._version = version
        for pod in self._pods:
            pod.pause(self._clock.now)
            self._clock.at(self._clock.now + self._sync_seconds, self._synced, (pod, pod.lives, version))

    def _synced(self, subject: tuple[SamplerPod, int, int]) -> None:
        pod, life, version = subject
        if pod.gone or pod.ready_since is None or pod.lives != life or version < self._version:
            return
        pod.resume(self._clock.now, version)
        if pod.due < inf:
            self._clock.at(pod.due, self._turns_end, pod)

    def ready(self, pod: SamplerPod) -> None:
        """It starts to serve, with the weights of today."""
        pod.version = self._version
        self._pods.append(pod)
        waiting, self._unserved = self._unserved, deque()
        self._serve_all(waiting)

    def drain(self, pod: SamplerPod) -> None:
        """It finishes what runs; what waits for it goes to others."""
        self._leave(pod, running=False)

    def lose(self, pod: SamplerPod) -> None:
        """What runs goes to others too, and loses the tokens of its turn."""
        self._leave(pod, running=True)

    def _leave(self, pod: SamplerPod, *, running: bool) -> None:
        if pod in self._pods:
            self._pods.remove(pod)
        self._serve_all(pod.hand_back(self._clock.now, running=running))

    def _serve_all(self, requests: Iterable[Trajectory]) -> None:
        for one in requests:
            if not one.lost:
                self.serve(one)
