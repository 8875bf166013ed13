"""A sampler replica: continuous batching under a KV limit, by virtual time.

All running sequences advance at the same pace, one token every tau(b) = alpha + beta·b seconds. In virtual time, which
counts tokens of a sequence that runs throughout, each turn ends at a fixed instant; only the pace between virtual and
simulated time changes when the batch does. So a replica needs one pending event, whatever the size of its batch.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from math import inf

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.twin.flow import UNBORN, Trajectory
from steelyard.twin.pods import Meter, Pod
from steelyard.twin.profiles import Sampler

ROUNDING = 1e-6
"""Tokens: a turn within so much of its end has ended."""
_ENGINE = (("engine", "0"),)


class SamplerPod(Pod):
    """Its batch, its queue and its counters."""

    stage = Stage.SAMPLER
    columns = (
        (signals.STAGE_SECONDS, (("state", "busy"),)),
        (signals.STAGE_SECONDS, (("state", "starved"),)),
        (signals.STAGE_SECONDS, (("state", "sync"),)),
        (signals.STAGE_SLOTS, ()),
        (signals.STAGE_INFLIGHT, ()),
        (signals.TOKENS_GENERATED, _ENGINE),
        (signals.REQUESTS_RUNNING, _ENGINE),
        (signals.REQUESTS_WAITING, _ENGINE),
        (signals.TOKEN_LATENCY_SUM, _ENGINE),
        (signals.TOKEN_LATENCY_COUNT, _ENGINE),
        (signals.KV_USAGE, _ENGINE),
    )

    def __init__(self, name: str, profile: str, spec: Sampler, ordinal: int, created: float) -> None:
        super().__init__(name, profile, spec.gpus, ordinal, created)
        self._spec = spec
        self.due = inf
        """When the pending event is; events at any other time mean nothing."""
        self.version = 0
        self.paused = False
        """While it takes new weights."""
        self._batch: list[tuple[float, int, Trajectory]] = []
        self._waiting: deque[Trajectory] = deque()
        self._order = 0
        self._forget()

    def _forget(self) -> None:
        self.running = 0
        self.held = 0
        """Requests in its hands, running or waiting."""
        self._live = 0.0
        self._last = 0.0
        self._virtual = 0.0
        self._pace = 0.0
        """Tokens that each running sequence gains a second."""
        self._busy = self._sync = self._running_seconds = self._tokens = self._occupied = 0.0

    def start(self, now: float) -> None:
        super().start(now)
        self._forget()
        self._last = now

    @property
    def inflight(self) -> int:
        return self.held

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, one: Trajectory, now: float) -> bool:
        """A request for a turn; whether `due` has changed."""
        self.held += 1
        if self._waiting or not self._has_room(one.need):
            self._waiting.append(one)
            return False
        self._advance(now)
        self._join(one)
        return self._retime(now)

    def end(self, now: float) -> list[Trajectory]:
        """The turns that have ended by now; `due` is then the next event's time, or infinite."""
        self._advance(now)
        batch, until = self._batch, self._virtual + ROUNDING
        ended = []
        while batch and batch[0][0] <= until:
            one = heappop(batch)[2]
            self.running -= 1
            self._live -= one.need
            ended.append(one)
        self.held -= len(ended)
        waiting = self._waiting
        while waiting and self._has_room(waiting[0].need):
            self._join(waiting.popleft())
        if not batch:
            self._virtual = self._live = 0.0
        self.due = inf
        self._retime(now)
        return ended

    def pause(self, now: float) -> None:
        """New weights: nothing is generated until `resume`."""
        self._advance(now)
        self.paused, self._pace, self.due = True, 0.0, inf

    def resume(self, now: float, version: int) -> None:
        self._advance(now)
        self.paused, self.version = False, version
        self._retime(now)

    def hand_back(self, now: float, *, running: bool) -> list[Trajectory]:
        """Give up what waits, and on demand what runs, which loses the tokens of its turn."""
        self._advance(now)
        given = list(self._waiting)
        self._waiting.clear()
        if running:
            heapify(self._batch)
            given = [one for _, _, one in sorted(self._batch)] + given
            self._batch.clear()
            self.running, self._live, self.due = 0, 0.0, inf
        self.held -= len(given)
        return given

    def _has_room(self, need: float) -> bool:
        return self.running < self._spec.max_num_seqs and (
            self._live + need <= self._spec.kv_tokens or not self.running  # a single sequence always runs
        )

    def _join(self, one: Trajectory) -> None:
        if one.version == UNBORN:
            one.version = self.version
        self.running += 1
        self._live += one.need
        self._order += 1
        heappush(self._batch, (self._virtual + one.wanted, self._order, one))

    def _retime(self, now: float) -> bool:
        """Set the pace of the present batch; whether the next turn ends before `due`, which is then set anew.

        A larger batch is slower, so `due` may come too early: then nothing has ended and the event sets it again.
        """
        if self.paused or not self.running:
            self._pace = 0.0
            return False
        spec = self._spec
        self._pace = 1.0 / (spec.alpha + spec.beta * self.running)
        due = now + max(self._batch[0][0] - self._virtual, 0.0) / self._pace
        if due < self.due:
            self.due = due
            return True
        return False

    def _advance(self, now: float) -> None:
        elapsed = now - self._last
        if elapsed <= 0:
            return
        self._last = now
        running = self.running
        if self.paused:
            self._sync += elapsed
        elif running:
            self._busy += elapsed
            tokens = elapsed * self._pace
            self._virtual += tokens
            self._tokens += running * tokens
        if running:  # a pause shows as one long gap between two tokens
            self._running_seconds += running * elapsed
            self._occupied += elapsed * max(running / self._spec.max_num_seqs, self._live / self._spec.kv_tokens)

    def figures(self, now: float) -> tuple[float, ...]:
        self._advance(now)
        idle = max(self.alive_seconds(now) - self._busy - self._sync, 0.0)
        return (
            self._busy,
            idle,
            self._sync,
            1.0,
            self.held,
            self._tokens,
            self.running,
            len(self._waiting),
            self._running_seconds,
            self._tokens,
            min(self._live / self._spec.kv_tokens, 1.0),
        )

    def meter(self, now: float) -> Meter:
        self._advance(now)
        return Meter(
            busy_seconds=self._running_seconds,
            occupied_seconds=self._occupied,
            duty_seconds=self._busy + self._sync,
            replica_seconds=self.alive_seconds(now),
            queue=len(self._waiting),
            serving=self.running,
            ready=int(self.serves),
        )
