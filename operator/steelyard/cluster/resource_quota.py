"""What the ResourceQuotas of a namespace still admit, by the resource that pods request: `cpu`, `nvidia.com/gpu`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from steelyard.api import parse_quantity

Left = Mapping[str, Fraction]
"""Resource -> cores, bytes or pieces; one that is absent is unbounded."""


def left_by(obj: Mapping[str, Any]) -> Left:
    """Of one quota; nothing of one with scopes."""
    if is_scoped(obj):
        return {}
    status = obj.get("status") or {}
    used = status.get("used") or {}
    found = [
        (name, max(most - taken, Fraction(0)))
        for key, hard in (status.get("hard") or {}).items()
        if (name := _resource(key))
        and (most := _amount(hard)) is not None
        and (taken := _amount(used.get(key, 0))) is not None
    ]
    return least([{name: free} for name, free in found])


def is_scoped(obj: Mapping[str, Any]) -> bool:
    """Whether a quota counts some pods only; whether ours are among them it does not say."""
    spec = obj.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def least(quotas: Iterable[Left]) -> Left:
    """Of several quotas: each must admit a pod."""
    left: dict[str, Fraction] = {}
    for quota in quotas:
        for name, free in quota.items():
            left[name] = min(free, left.get(name, free))
    return left


def _resource(key: str) -> str | None:
    """`requests.cpu` and `cpu` are the same; other keys bound limits, storage or counts of objects."""
    name = key.removeprefix("requests.")
    extended = name != key and "/" in name
    return name if name in ("cpu", "memory") or extended else None


def _amount(written: Any) -> Fraction | None:
    try:
        return parse_quantity(written)
    except ValueError:
        return None
