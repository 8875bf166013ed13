"""The replicas that serve one unit a slot: environment, reward server, trainer; and the bus, which is only watched."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.twin.flow import Group, Trajectory
from steelyard.twin.pods import Meter, Pod, Slots


def _states(*names: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    return tuple((signals.STAGE_SECONDS, (("state", name),)) for name in names)


def _units(*outcomes: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    return tuple((signals.STAGE_UNITS, (("outcome", outcome),)) for outcome in outcomes)


class EnvironmentPod(Pod):
    """Episodes, each in one of its slots: waiting for tokens or for a tool."""

    stage = Stage.ENVIRONMENT
    columns = (
        *_states("tokens", "tool", "paced"),
        *_units("ok", "failed"),
        (signals.STAGE_SLOTS, ()),
        (signals.STAGE_INFLIGHT, ()),
    )

    def __init__(self, name: str, profile: str, slots: int, ordinal: int, created: float) -> None:
        super().__init__(name, profile, 0, ordinal, created)
        self.slots = slots
        self._forget()

    def _forget(self) -> None:
        self.playing: dict[Trajectory, None] = {}
        self.tokens, self.tool = Slots(), Slots()
        self.ok = self.failed = 0

    def start(self, now: float) -> None:
        super().start(now)
        self._forget()

    @property
    def inflight(self) -> int:
        return len(self.playing)

    def figures(self, now: float) -> tuple[float, ...]:
        tokens, tool = self.tokens.seconds(now), self.tool.seconds(now)
        idle = self.alive_seconds(now) * self.slots - tokens - tool  # the feeder admits at once: idle is always paced
        return (tokens, tool, idle, self.ok, self.failed, self.slots, len(self.playing))

    def meter(self, now: float) -> Meter:
        busy, alive = self.tokens.seconds(now) + self.tool.seconds(now), self.alive_seconds(now)
        return Meter(
            busy_seconds=busy,
            occupied_seconds=busy / self.slots,
            duty_seconds=alive,
            replica_seconds=alive,
            serving=len(self.playing),
            ready=int(self.serves),
        )


class RewardPod(Pod):
    """Trajectories being judged, each in one of its slots."""

    stage = Stage.REWARD_SERVER
    columns = (
        *_states("busy", "starved"),
        *_units("ok", "failed"),
        (signals.STAGE_SLOTS, ()),
        (signals.STAGE_INFLIGHT, ()),
    )

    def __init__(self, name: str, profile: str, gpus: int, slots: int, ordinal: int, created: float) -> None:
        super().__init__(name, profile, gpus, ordinal, created)
        self.slots = slots
        self._forget()

    def _forget(self) -> None:
        self.judging: dict[Trajectory, None] = {}
        self.busy = Slots()
        self.duty = Slots()
        self.ok = self.failed = 0

    def start(self, now: float) -> None:
        super().start(now)
        self._forget()

    @property
    def inflight(self) -> int:
        return len(self.judging)

    def take(self, one: Trajectory, now: float) -> None:
        if not self.judging:
            self.duty.enter(now)
        self.judging[one] = None
        self.busy.enter(now)

    def leave(self, one: Trajectory, now: float) -> None:
        del self.judging[one]
        self.busy.leave(now)
        if not self.judging:
            self.duty.leave(now)

    def figures(self, now: float) -> tuple[float, ...]:
        busy = self.busy.seconds(now)
        idle = self.alive_seconds(now) * self.slots - busy
        return (busy, idle, self.ok, self.failed, self.slots, len(self.judging))

    def meter(self, now: float) -> Meter:
        busy = self.busy.seconds(now)
        return Meter(
            busy_seconds=busy,
            occupied_seconds=busy / self.slots,
            duty_seconds=self.duty.seconds(now),
            replica_seconds=self.alive_seconds(now),
            serving=len(self.judging),
            ready=int(self.serves),
        )


class TrainerPod(Pod):
    """One step at a time."""

    stage = Stage.TRAINER
    columns = (
        *_states("busy", "starved"),
        *_units("ok", "failed", "stale"),
        (signals.STAGE_SLOTS, ()),
        (signals.STAGE_INFLIGHT, ()),
        (signals.STEP_COUNT, ()),
        (signals.POLICY_VERSION, ()),
    )

    def __init__(self, name: str, profile: str, gpus: int, ordinal: int, created: float) -> None:
        super().__init__(name, profile, gpus, ordinal, created)
        self.version = 0
        self._forget()

    def _forget(self) -> None:
        self.groups: list[Group] = []
        """Of the step it is in."""
        self.saving = False
        self.busy = Slots()
        self.ok = self.failed = self.stale = self.steps = 0

    def start(self, now: float) -> None:
        super().start(now)
        self._forget()

    @property
    def idle(self) -> bool:
        return not self.groups and not self.saving

    @property
    def inflight(self) -> int:
        return sum(len(group.trainable) for group in self.groups)

    def figures(self, now: float) -> tuple[float, ...]:
        busy = self.busy.seconds(now)
        idle = self.alive_seconds(now) - busy
        return (busy, idle, self.ok, self.failed, self.stale, 1.0, self.inflight, self.steps, self.version)

    def meter(self, now: float) -> Meter:
        busy = self.busy.seconds(now)
        return Meter(
            busy_seconds=busy,
            occupied_seconds=busy,
            duty_seconds=busy,
            replica_seconds=self.alive_seconds(now),
            serving=self.inflight,
            ready=int(self.serves),
        )


class BusPod(Pod):
    """Holds messages until they are acknowledged; the pipeline says how many."""

    columns = tuple((signals.BUFFER_DEPTH, (("buffer", name),)) for name in ("tasks", "trajectories", "experience"))

    def __init__(self, name: str, depths: Callable[[], tuple[float, float, float]]) -> None:
        super().__init__(name, "", 0, 0, 0.0)
        self._depths = depths
        self.start(0.0)

    @property
    def inflight(self) -> int:
        return 0

    def figures(self, now: float) -> tuple[float, ...]:  # noqa: ARG002 - of every pod
        return self._depths()

    def meter(self, now: float) -> Meter:  # noqa: ARG002 - likewise
        return Meter()
