"""Says what is being done and for how long, on a terminal (a live line per step) and in a log (plain lines)."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

HEARTBEAT_SECONDS = 20.0


class Step:
    """One piece of work; ``note`` is shown beside its title, and may change while it runs."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars, self._task = bars, task
        self.text = ""

    def note(self, text: str) -> None:
        self.text = text
        self._bars.update(self._task, note=text)


class Progress:
    """Steps may run side by side in several threads. Everything goes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("[dim]{task.fields[note]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._lock = threading.Lock()
        self._open = 0

    def say(self, text: str) -> None:
        self._console.print(text)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """A line when it ends; if it takes long, signs of life before that."""
        begin = time.monotonic()
        step = Step(self._bars, self._bars.add_task(title, total=None, note=""))
        self._enter()
        over = threading.Event()
        beat = threading.Thread(target=self._beat, args=(title, step, begin, over), daemon=True)
        beat.start()
        try:
            yield step
        finally:
            over.set()
            beat.join()
            self._bars.remove_task(step._task)
            self._leave()
        self._console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - begin:.1f} s[/]")

    def _beat(self, title: str, step: Step, begin: float, over: threading.Event) -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            if not self._console.is_terminal:
                self._console.print(f"… {title}: {time.monotonic() - begin:.0f} s {step.text}".rstrip())

    def _enter(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._bars.start()

    def _leave(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._bars.stop()
