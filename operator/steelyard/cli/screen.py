"""Frames of lines that follow each other: redrawn in place on a terminal, one line per change everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

from steelyard.cli.output import live

if TYPE_CHECKING:
    from rich.live import Live


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a frame. Lines whose `said` is the same say the same, though an age in them went on."""

    text: str
    said: object


class Screen:
    """Shows the same text as a command without `-w`, again and again."""

    def __init__(self) -> None:
        self._last = frozenset[object]()
        self._running = ExitStack()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if live(sys.stdout):
            from rich.console import Console
            from rich.live import Live

            console = Console(file=sys.stdout, highlight=False)
            self._live = self._running.enter_context(Live(console=console, auto_refresh=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def show(self, lines: Sequence[Line]) -> None:
        if self._live is None:
            for line in lines:
                if line.said not in self._last:
                    typer.echo(line.text)
            self._last = frozenset(line.said for line in lines)
            return
        from rich.text import Text

        console = self._live.console
        wrapped = [part for line in lines for part in Text.from_ansi(line.text).wrap(console, console.width)]
        kept, more = cut(len(wrapped), console.height - 1)
        self._live.update(Text("\n").join([*wrapped[:kept], *map(Text, more)]), refresh=True)


def cut(lines: int, height: int) -> tuple[int, list[str]]:
    """How many of so many lines are shown from the top, and below them the line that says how many more there are."""
    if lines <= height:
        return lines, []
    kept = max(height - 1, 1)
    return kept, [f"+{lines - kept} more"]
