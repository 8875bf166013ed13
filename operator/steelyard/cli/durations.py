"""Lengths of time as people write them: `90s`, `30m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

import typer

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PATTERN = re.compile("".join(rf"(?:(\d+){unit})?" for unit in _UNITS))
LONGEST = 366 * 86400


def parse_duration(text: str) -> int:
    """Seconds, at least one and at most a year; ValueError says what is expected."""
    found = _PATTERN.fullmatch(text.strip())
    counts = [int(count or 0) for count in found.groups()] if found else []
    seconds = sum(count * unit for count, unit in zip(counts, _UNITS.values(), strict=False))
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"{text!r} is no length of time such as 90s, 30m, 1h30m or 2d, of at most a year")
    return seconds


def duration(text: str | int) -> int:
    """The same as the parser of an option, whose default passes it too."""
    try:
        return text if isinstance(text, int) else parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def written(seconds: float) -> str:
    """The two largest units: `1h30m`, `45s`."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2]) or "0s"
