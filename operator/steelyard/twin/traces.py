"""Recorded sessions as the twin's input: who generated how much, and how long each tool took."""

from __future__ import annotations

from dataclasses import dataclass


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
