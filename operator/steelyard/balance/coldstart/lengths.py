"""Lengths of trajectories: what the planner knows about the work. Read from JSON lines, or from a distribution."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, log
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steelyard.balance.coldstart.words import BadInput, shorten

Floats = NDArray[np.float64]

COLUMNS = ("input_len", "output_len")
MOST_TOKENS = 10_000_000
QUANTILES = 512
SIGMA = 0.9
"""Spread of agentic lengths where nothing is known."""
CONTEXT = 40_960
"""Longest trajectory where nothing is known."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Tokens of each trajectory, shape (requests,), all positive."""

    prompt: Floats
    """Given to the policy: the prompt and what tools returned."""
    generated: Floats
    """Written by the policy."""

    @property
    def total(self) -> Floats:
        return self.prompt + self.generated

    @property
    def longest(self) -> int:
        return int(np.ceil(self.total.max()))

    def __len__(self) -> int:
        return len(self.prompt)


def parse(lines: Iterable[str]) -> Lengths | BadInput:
    """One JSON value a line: {"input_len": 512, "output_len": 9000} or [512, 9000]; other keys are ignored.

    The first malformed row is named with its column.
    """
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _row(number, line)
        if isinstance(row, BadInput):
            return row
        rows.append(row)
    if not rows:
        return BadInput("requests", "", "holds no row: at least one trajectory is needed")
    prompt, generated = np.array(rows, dtype=float).T
    return Lengths(prompt, generated)


def _row(number: int, line: str) -> tuple[float, float] | BadInput:
    where = f"requests row {number}"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return BadInput(where, line.strip(), "is not JSON")
    if isinstance(value, dict):
        missing = [column for column in COLUMNS if column not in value]
        if missing:
            has = shorten(", ".join(value)) or "none"
            return BadInput(f"{where}, column {missing[0]}", None, f"is missing; the row has {has}")
        pair = [value[column] for column in COLUMNS]
    elif isinstance(value, list) and len(value) == len(COLUMNS):
        pair = value
    else:
        return BadInput(where, line.strip(), "is neither {input_len, output_len} nor a pair of numbers")
    for column, tokens in zip(COLUMNS, pair, strict=True):
        if not _is_length(tokens):
            return BadInput(
                f"{where}, column {column}", tokens, f"must be a number of tokens from 1 to {MOST_TOKENS:,}"
            )
    return float(pair[0]), float(pair[1])


def _is_length(tokens: object) -> bool:
    if isinstance(tokens, bool) or not isinstance(tokens, int | float):
        return False
    return 1 <= tokens <= MOST_TOKENS and isfinite(tokens)


def lognormal(prompt: float, generated: float, sigma: float, context: float) -> Lengths | BadInput:
    """Prompts of one length, generated lengths lognormal with the mean `generated`, cut so that they fit `context`.

    The usual shape of agentic lengths: most are short, few are very long. Quantiles, so that nothing is random.
    """
    for field, value, low, high in (
        ("prompt tokens", prompt, 1, MOST_TOKENS),
        ("output tokens", generated, 1, MOST_TOKENS),
        ("context tokens", context, 1, MOST_TOKENS),
        ("sigma", sigma, 0, 3),
    ):
        if not low <= value <= high:
            return BadInput(field, value, f"must lie between {low:,} and {high:,}")
    if prompt + generated > context:
        rule = f"on average and prompts of {prompt:,} do not fit a context of {context:,}"
        return BadInput("output tokens", generated, rule)
    normal = NormalDist(log(generated) - sigma**2 / 2, sigma) if sigma > 0 else None
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    drawn = np.exp([normal.inv_cdf(share) for share in shares]) if normal else np.full(QUANTILES, float(generated))
    return Lengths(np.full(QUANTILES, float(prompt)), np.clip(drawn, 1, context - prompt))
