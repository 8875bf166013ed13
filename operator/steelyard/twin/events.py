"""The simulated clock: what happens when, in order of time and then of scheduling."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[Any], None]


class Events:
    """Pending events. Seconds count from the start of the simulation."""

    __slots__ = ("_heap", "_order", "now", "stopped")

    def __init__(self) -> None:
        self.now = 0.0
        self.stopped = False
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._order = 0

    @property
    def fired(self) -> int:
        """Events that have happened."""
        return self._order - len(self._heap)

    def at(self, when: float, action: Action, subject: Any = None) -> None:
        """Call `action(subject)` at `when`."""
        self._order = order = self._order + 1
        heappush(self._heap, (when, order, action, subject))

    def run_until(self, until: float) -> None:
        """Everything up to and including `until`, unless somebody stops the clock before."""
        heap, pop = self._heap, heappop
        while heap and heap[0][0] <= until and not self.stopped:
            self.now, _, action, subject = pop(heap)
            action(subject)
        if not self.stopped:
            self.now = max(self.now, until)
