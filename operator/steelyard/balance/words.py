"""Numbers and moves as people read them: in reasons, evidence and the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite

from steelyard.api import Allocation, Stage
from steelyard.balance.types import Instant

LONGEST = 1000


def number(value: float | None, digits: int = 2) -> str:
    """`value` with so many significant digits and no exponent: 0.0123, 1.5, 1200."""
    if value is None or not isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    text = f"{rounded:.12f}".rstrip("0").rstrip(".") if abs(rounded) < 10**digits else f"{rounded:.0f}"
    return text if text not in ("", "-", "-0") else "0"


def decimal(value: float) -> str:
    """`value` as the API's Decimal, at four significant digits."""
    return f"{value:.4g}" if isfinite(value) else "0"


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def seconds(value: float) -> str:
    return f"{value:.0f} s"


def changes(before: Allocation, after: Allocation) -> str:
    """`environment 1 -> 2, sampler 2 -> 1`: what differs, profiles named where there is more than one."""
    parts = []
    for stage in Stage:
        profiles = sorted({*before[stage], *after[stage]})
        for profile in profiles:
            old, new = before[stage].get(profile, 0), after[stage].get(profile, 0)
            if old != new:
                parts.append(f"{stage}{f' ({profile})' if len(profiles) > 1 else ''} {old} -> {new}")
    return ", ".join(parts) or "nothing"


def sentence(text: str) -> str:
    """Cut to what the API admits."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def moment(now: Instant) -> datetime:
    """Whole seconds, as the API stores them."""
    return datetime.fromtimestamp(int(now), UTC)


def instant(time: datetime | None) -> Instant | None:
    return time.timestamp() if time else None
