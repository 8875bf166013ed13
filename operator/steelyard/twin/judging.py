"""The reward servers together: trajectories wait for a free slot, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from steelyard.twin.events import Events
from steelyard.twin.flow import Trajectory
from steelyard.twin.pods import Pod
from steelyard.twin.profiles import Profile
from steelyard.twin.stages import RewardPod


class Judging:
    """All reward servers. `scored` and `remove` are told what becomes of trajectories and of drained pods."""

    def __init__(
        self,
        clock: Events,
        profile: Profile,
        scored: Callable[[Trajectory], None],
        remove: Callable[[Pod], None],
    ) -> None:
        self._clock, self._exponent, self._mean_tokens = clock, profile.reward.exponent, profile.mean_tokens
        self._scored, self._remove = scored, remove
        self._unscored: deque[Trajectory] = deque()
        self._free: deque[tuple[RewardPod, int]] = deque()
        self.events = 0
        """Trajectories judged so far."""

    @property
    def waiting(self) -> int:
        """Trajectories that no slot has taken."""
        return len(self._unscored)

    def add(self, one: Trajectory) -> None:
        """An episode is over, well or not."""
        self._unscored.append(one)
        self._judge()

    def _judge(self) -> None:
        """Give waiting trajectories to free slots."""
        waiting, free = self._unscored, self._free
        while waiting and free:
            pod, life = free.popleft()
            if not pod.serves or pod.lives != life:
                continue
            one = waiting.popleft()
            pod.take(one, self._clock.now)
            seconds = one.draw.judging * (one.generated / self._mean_tokens) ** self._exponent
            self._clock.at(self._clock.now + seconds, self._judged, (pod, life, one))

    def _judged(self, subject: tuple[RewardPod, int, Trajectory]) -> None:
        pod, life, one = subject
        if pod.gone or pod.ready_since is None or pod.lives != life:
            return
        self.events += 1
        pod.leave(one, self._clock.now)
        if one.draw.fails:
            pod.failed += 1
        else:
            pod.ok += 1
        if not pod.terminating:
            self._free.append((pod, life))
        elif not pod.judging:
            self._remove(pod)
        self._scored(one)
        self._judge()

    def ready(self, pod: RewardPod) -> None:
        """Its slots are free."""
        self._free.extend([(pod, pod.lives)] * pod.slots)
        self._judge()

    def lose(self, pod: RewardPod) -> None:
        """What it judged is judged anew, before what waits."""
        self._unscored.extendleft(reversed(pod.judging))
        self._judge()
