"""Times and durations as people write and read them: `5m30s`, `3d4h`, `2026-11-30T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"(?:\d+[smhd])+")
LONGEST = 366 * 86400
PART = re.compile(r"(\d+)([smhd])")


class NoTime(ValueError):
    """The text is no duration and no time."""


def seconds_of(text: str) -> float:
    """`90s`, `5m`, `1h30m`, `2d` in seconds. NoTime when it is none."""
    if not DURATION.fullmatch(text):
        raise NoTime(f"{text!r} is no duration; write 90s, 5m, 1h30m or 2d")
    return float(sum(int(number) * UNITS[unit] for number, unit in PART.findall(text)))


def instant_of(text: str, now: datetime) -> datetime:
    """A time, or a duration before `now`. NoTime when it is neither."""
    if DURATION.fullmatch(text):
        return now - timedelta(seconds=seconds_of(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise NoTime(f"{text!r} is neither a duration (5m) nor a time (2026-11-30T12:00:00Z)") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def length(text: str | int) -> int:
    """Whole seconds, at least one: the parser of an option, which its default passes too."""
    if isinstance(text, int):
        return text
    try:
        seconds = int(seconds_of(text))
    except NoTime as error:
        raise typer.BadParameter(str(error)) from error
    if not 0 < seconds <= LONGEST:
        raise typer.BadParameter(f"{text!r} is no duration between a second and a year")
    return seconds


def moment(text: str) -> datetime:
    """A time, or a duration before now: the parser of an option."""
    try:
        return instant_of(text, now())
    except NoTime as error:
        raise typer.BadParameter(str(error)) from error


def age(since: datetime, now: datetime) -> str:
    """How long ago, in its two largest units."""
    return duration(max((now - since).total_seconds(), 0.0))


def duration(seconds: float) -> str:
    """Two units at most, as kubectl writes them: `45s`, `5m30s`, `3h`, `3d4h`."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in reversed(UNITS.items()):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return "".join(parts[:2])


def clock(at: datetime) -> str:
    """A time of which every digit matters, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> datetime:
    return datetime.now(UTC)
