"""Numbers for people: two significant digits, so that a status does not change with every breath of the pipeline."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from steelyard.balance.types import Instant


def figure(value: float | Fraction | None) -> str | None:
    """`1234.5` becomes `1200`, `0.01234` becomes `0.012`; None stays None."""
    return None if value is None else f"{float(f'{float(value):.2g}'):g}"


def exact(value: Fraction) -> str:
    """A count of GPUs, in full: they come in thousandths."""
    return f"{float(value):.3f}".rstrip("0").rstrip(".")


def moment(now: Instant) -> datetime:
    """Whole seconds, as the API stores them: a read status equals the one that was written."""
    return datetime.fromtimestamp(int(now), UTC)
