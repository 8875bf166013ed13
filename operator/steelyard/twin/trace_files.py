"""Recorded sessions from CSV: one row a turn, in the columns that public traces of agents use.

Two sets of names are understood: `session_id, round_idx, input_len, output_len, tool_wait_after_ms` (TraceLab's replay
files) and `trajectory, turn, input_tokens_added, output_tokens` (turns without tool times). Other columns are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from steelyard.twin.traces import Session, Turn

LARGEST = 1e9


class BadTrace(ValueError):
    """The file is not a trace; the message names line, column and value."""


@dataclass(frozen=True)
class _Columns:
    session: str
    turn: str
    added: str
    generated: str
    tool_milliseconds: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        return self.session, self.turn, self.added, self.generated


FORMATS = (
    _Columns("session_id", "round_idx", "input_len", "output_len", "tool_wait_after_ms"),
    _Columns("trajectory", "turn", "input_tokens_added", "output_tokens"),
)


def read_trace(lines: Iterable[str]) -> tuple[Session, ...]:
    """The sessions of a CSV file with a header, each with its turns in order. Raises BadTrace."""
    rows = csv.DictReader(lines)
    header = tuple(rows.fieldnames or ())
    columns = next((known for known in FORMATS if set(known.needed) <= set(header)), None)
    if columns is None:
        wanted = " or ".join(", ".join(known.needed) for known in FORMATS)
        raise BadTrace(f"line 1: the columns are {', '.join(header) or 'missing'}; wanted are {wanted}")
    sessions: dict[str, dict[float, Turn]] = {}
    for row in rows:
        turns = sessions.setdefault(_text(row, columns.session, rows.line_num), {})
        position = _number(row, columns.turn, rows.line_num)
        if position in turns:
            raise BadTrace(f"line {rows.line_num}, column {columns.turn}: turn {position:g} is there twice")
        turns[position] = _turn(row, columns, rows.line_num)
    if not sessions:
        raise BadTrace("line 2: there is no row below the header")
    return tuple(Session(tuple(turns[position] for position in sorted(turns))) for turns in sessions.values())


def _turn(row: Mapping[str, str | None], columns: _Columns, line: int) -> Turn:
    generated = _number(row, columns.generated, line)
    if generated < 1:
        raise BadTrace(f"line {line}, column {columns.generated}: {generated:g} is less than 1")
    name = columns.tool_milliseconds
    seconds = _number(row, name, line) / 1000 if name and row.get(name) else None
    return Turn(round(_number(row, columns.added, line)), round(generated), seconds)


def _text(row: Mapping[str, str | None], column: str, line: int) -> str:
    found = row[column]
    if not found:
        raise BadTrace(f"line {line}, column {column}: there is no value")
    return found


def _number(row: Mapping[str, str | None], column: str, line: int) -> float:
    text = _text(row, column, line)
    try:
        value = float(text)
    except ValueError as error:
        raise BadTrace(f"line {line}, column {column}: {text!r} is not a number") from error
    if not (isfinite(value) and 0 <= value <= LARGEST):
        raise BadTrace(f"line {line}, column {column}: {text} is not between 0 and {LARGEST:g}")
    return value
