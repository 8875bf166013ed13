"""Splits the wall time of every slot of a worker into states, so that the states of a slot always sum to its life.

The figures are live: reading them settles every slot up to now, so a wait that has not ended yet already shows.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum


class State(StrEnum):
    """What one slot does at a moment (design: the measurement contract)."""

    BUSY = "busy"
    STARVED = "starved"  # no input
    BLOCKED = "blocked"  # the output is full
    PACED = "paced"  # admission is closed
    TOOL = "tool"  # waiting for a tool
    TOKENS = "tokens"  # waiting for a sampler
    SYNC = "sync"  # weights
    DRAIN = "drain"


WORKING = frozenset({State.BUSY, State.BLOCKED, State.TOOL, State.TOKENS})  # a unit of work is bound to the slot


class Slot:
    """One unit of concurrency; it is in exactly one state from its making until it is closed."""

    def __init__(self, clock: "Clock", state: State) -> None:
        self._clock = clock
        self.states: tuple[State, ...] = (state,)
        """The state it rests in, then those of the blocks it is within; the last one counts."""
        self.since = clock.now()

    @property
    def state(self) -> State:
        """What it does now."""
        return self.states[-1]

    def enter(self, state: State) -> None:
        """Rest in `state` from now on; the time until now belongs to the state before."""
        self._clock.settle(self, (state, *self.states[1:]))

    @contextmanager
    def within(self, state: State) -> Iterator[None]:
        """Be in `state` inside the block, also when it raises. Blocks may overlap: tools that run at the same time."""
        self._clock.settle(self, (*self.states, state))
        try:
            yield
        finally:
            place = len(self.states) - 1 - self.states[::-1].index(state)
            self._clock.settle(self, self.states[:place] + self.states[place + 1 :])


class Clock:
    """The slots of one worker and the seconds they spent; safe to use from several threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._spent = dict.fromkeys(State, 0.0)
        self._slots: set[Slot] = set()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self, state: State = State.STARVED) -> Iterator[Slot]:
        """One more slot while the block runs."""
        slot = self.open(state)
        try:
            yield slot
        finally:
            self.close(slot)

    def open(self, state: State = State.STARVED) -> Slot:
        """One more slot, in `state`, until `close`."""
        slot = Slot(self, state)
        with self._lock:
            self._slots.add(slot)
        return slot

    def close(self, slot: Slot) -> None:
        """The slot's last state ends now; its seconds stay counted."""
        self.settle(slot, slot.states)
        with self._lock:
            self._slots.discard(slot)

    def settle(self, slot: Slot, states: tuple[State, ...]) -> None:
        """Book the slot's time up to now on its state and give it the new ones."""
        with self._lock:
            self._book(slot)
            slot.states = states

    def seconds(self) -> dict[State, float]:
        """Seconds spent in each state up to this very moment, summed over all slots that ever were."""
        with self._lock:
            for slot in self._slots:
                self._book(slot)
            return dict(self._spent)

    @property
    def slots(self) -> int:
        """How many slots are open."""
        return len(self._slots)

    @property
    def working(self) -> int:
        """How many slots have a unit of work in hand."""
        with self._lock:
            return sum(slot.state in WORKING for slot in self._slots)

    def _book(self, slot: Slot) -> None:
        now = max(self.now(), slot.since)
        self._spent[slot.state] += now - slot.since
        slot.since = now
