"""Lines of many pods' logs as one stream: by time, and by pod where the time is the same."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from steelyard.cluster.errors import ClusterError

HELD_SECONDS = 0.4
"""How long a line may wait for an earlier one of another pod while logs are followed."""


@dataclass(frozen=True, order=True)
class Line:
    """One line; sorts by time, then by where it is from, then as it came."""

    time: str
    """RFC 3339 with all nanoseconds, which sorts as text."""
    source: str
    """`stage/pod`, with `/container` where a pod has several."""
    number: int
    text: str


def parsed(source: str, lines: Iterable[str]) -> Iterator[Line]:
    """Lines that begin with their time; one that does not, such as what the kubelet says, goes with that before."""
    last = ""
    for number, line in enumerate(lines):
        stamp, _, text = line.partition(" ")
        if stamp[:4].isdecimal() and stamp.endswith("Z"):
            last = _padded(stamp)
        else:
            text = line
        yield Line(last, source, number, text)


def _padded(stamp: str) -> str:
    """The kubelet leaves out zeros at the end, so that `.5Z` would sort behind `.51Z`."""
    whole, _, fraction = stamp[:-1].partition(".")
    return f"{whole}.{fraction.ljust(9, '0')}Z"


class Followed:
    """Logs that go on, each read by a thread of its own. Lines come out in order, as far as they came in time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        self._broken: queue.SimpleQueue[tuple[str, ClusterError]] = queue.SimpleQueue()
        self._threads: dict[str, threading.Thread] = {}

    def read(self, key: str, source: str, lines: Iterable[str]) -> None:
        """Read a log to its end; `key` tells two runs of the same container apart."""
        thread = threading.Thread(target=self._read, args=(source, lines), daemon=True)
        self._threads[key] = thread
        thread.start()

    def knows(self, key: str) -> bool:
        return key in self._threads

    @property
    def count(self) -> int:
        """Logs that are being read."""
        return sum(thread.is_alive() for thread in self._threads.values())

    def due(self) -> list[Line]:
        """What comes within the next moment, in order."""
        end = self._clock() + HELD_SECONDS
        found: list[Line] = []
        while (left := end - self._clock()) > 0:
            try:
                found.append(self._lines.get(timeout=left))
            except queue.Empty:
                break
        return sorted(found)

    def broken(self) -> Iterator[tuple[str, ClusterError]]:
        """(source, why) of logs that could not be read to their end, each told once."""
        while not self._broken.empty():
            yield self._broken.get()

    def _read(self, source: str, lines: Iterable[str]) -> None:
        try:
            for line in parsed(source, lines):
                self._lines.put(line)
        except ClusterError as error:
            self._broken.put((source, error))
