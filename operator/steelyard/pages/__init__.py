"""What the pages that people open in a browser have in common: axes, drawings, one theme.

A page is one HTML file: inline SVG, no script, nothing fetched from anywhere. `twin` and `audit` write such pages.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from steelyard.balance.types import Instant
from steelyard.balance.words import number


@cache
def templates(package: str) -> Environment:
    """The templates of `package`, which may build on those of this one; compiled once in a process."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__name__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(figure=figure, clock=clock, day=day)
    return environment


def figure(value: float | None, digits: int = 3) -> str:
    """A number for people; an en dash where nothing was measured."""
    return "–" if value is None else number(value, digits)


def clock(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def day(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%-d %b %Y}"
