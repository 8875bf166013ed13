"""Recorded sessions as the twin's input: who generated how much, and how long each tool took.

Two public formats, told apart by their header:

- agent turns: `trajectory,turn,input_tokens_added,output_tokens,reward` (derived from tau-bench);
- coding sessions: `session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms` (TraceLab).

Columns in any order; those that are not used (reward, arrival_time, prefix_len) may be missing, and so may a wait.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MOST = 10_000_000
"""Tokens, turns and milliseconds beyond it are garbage."""
LONGEST_FIELD = 64


class Malformed(ValueError):
    """A trace that cannot be read; the message names row, column, value and rule."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the policy."""

    input_tokens: int
    """Tokens added to the context before it."""
    output_tokens: int
    tool_seconds: float | None = None
    """Wait for the tool called after it; None where the trace does not tell."""


@dataclass(frozen=True, slots=True)
class Session:
    """One trajectory."""

    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class _Format:
    """Names of the columns that count."""

    session: str
    turn: str
    added: str
    generated: str
    wait_ms: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        return self.session, self.turn, self.added, self.generated


_FORMATS = (
    _Format("trajectory", "turn", "input_tokens_added", "output_tokens"),
    _Format("session_id", "round_idx", "input_len", "output_len", "tool_wait_after_ms"),
)


def read(text: str) -> tuple[Session, ...]:
    """The sessions of a trace, in order of appearance, their turns in order. Raises Malformed."""
    rows = csv.reader(text.splitlines())
    numbered = _numbered(rows)
    _, header = next(numbered, (1, []))
    form = next((one for one in _FORMATS if set(one.needed) <= set(header)), None)
    if form is None:
        known = " or ".join(",".join(one.needed) for one in _FORMATS)
        raise Malformed(f"row 1: columns {','.join(header)[:200] or 'none'}; needed are {known}")
    sessions: dict[str, dict[int, Turn]] = {}
    for number, values in numbered:
        row = dict(zip(header, values, strict=False))
        turns = sessions.setdefault(_named(row, form.session, number), {})
        index = _whole(row, form.turn, number)
        if index in turns:
            raise Malformed(f"row {number}, column {form.turn}: turn {index} of this session came before")
        wait = _whole(row, form.wait_ms, number) / 1000 if form.wait_ms and row.get(form.wait_ms) else None
        generated = _whole(row, form.generated, number)
        if generated < 1:
            raise Malformed(f"row {number}, column {form.generated}: {generated}; a turn generates at least one token")
        turns[index] = Turn(_whole(row, form.added, number), generated, wait)
    if not sessions:
        raise Malformed("row 2: a trace has at least one row below its header")
    return tuple(Session(tuple(turns[index] for index in sorted(turns))) for turns in sessions.values())


def _numbered(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """(row, values); blank rows are passed over."""
    number = 0
    try:
        for number, values in enumerate(rows, start=1):
            if values:
                yield number, values
    except csv.Error as error:
        raise Malformed(f"row {number + 1}: {error}") from error


def _named(row: Mapping[str, str], column: str, number: int) -> str:
    name = row.get(column, "").strip()
    if not name:
        raise Malformed(f"row {number}, column {column}: there is no value")
    return name


def _whole(row: Mapping[str, str], column: str, number: int) -> int:
    text = row.get(column, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_FIELD and int(text) <= MOST):
        raise Malformed(f"row {number}, column {column}: {text[:LONGEST_FIELD]!r} is no whole number from 0 to {MOST}")
    return int(text)
