"""The answers of the cold-start planner that are no plan."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

LONGEST = 80


@dataclass(frozen=True, slots=True)
class BadInput:
    """Something the caller gave breaks a rule."""

    field: str
    value: object
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: {shorten(repr(self.value))} {self.rule}"


def shorten(text: str) -> str:
    """As much of what somebody else wrote as helps to find it."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The question is sound and has no plan; `constraint` says what is in the way."""

    constraint: str


def unknown_row(field: str, name: str, known: list[str]) -> BadInput:
    """No such row: say which there are, and which one was perhaps meant."""
    close = get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return BadInput(field, name, f"is not a known row; known are {', '.join(known)}{meant}")
