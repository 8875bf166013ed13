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

    def __init__(self, pinned: int = 1) -> None:
        """`pinned` lines from the top stay when a frame is too tall."""
        self._pinned, self._last = pinned, frozenset[object]()
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

        height = self._live.console.height - 1
        shown = trimmed([line.text for line in lines], height, self._pinned)
        frame = Text.from_ansi("\n".join(shown), no_wrap=True, overflow="ellipsis")
        self._live.update(frame, refresh=True)


def trimmed(lines: Sequence[str], height: int, pinned: int) -> list[str]:
    """As many lines as fit, the pinned ones first, and how many are left out."""
    if len(lines) <= height:
        return list(lines)
    kept = max(height - 1, pinned)
    return [*lines[:kept], f"+{len(lines) - kept} more"]
