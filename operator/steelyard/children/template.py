"""Merges the user's pod template over ours.

The rule: objects are merged key by key; lists whose entries have an identity (containers, volumes, env and ports by
`name`, volumeMounts by `mountPath`) are merged entry by entry, new entries at the end; every other list and every
scalar of the user replaces ours; null removes. The worker's container is called `worker`. Labels of ours stay.
What has no place in a pod template is left in, for the API server to refuse in its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORKER = "worker"
"""Name of the container that runs the worker."""

_IDENTITY = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
}


def merged(ours: Mapping[str, Any], users: Mapping[str, Any] | None) -> dict[str, Any]:
    """`ours` overlaid with the user's template, our labels and annotations kept."""
    result = _merge_objects(ours, users or {})
    if isinstance(metadata := result.setdefault("metadata", {}), dict):
        for field in ("labels", "annotations"):
            if isinstance(users_own := metadata.get(field) or {}, dict):
                metadata[field] = {**users_own, **ours["metadata"][field]}
    return result


def _merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(key, result.get(key), value)
    return result


def _merge(key: str, base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return _merge_objects(base, over)
    if isinstance(base, list) and isinstance(over, list) and key in _IDENTITY:
        return _merge_lists(base, over, _IDENTITY[key])
    return over


def _merge_lists(base: list[Any], over: list[Any], identity: str) -> list[Any]:
    result = list(base)
    places = {entry[identity]: place for place, entry in enumerate(base)}
    for entry in over:
        known_as = entry.get(identity) if isinstance(entry, Mapping) else None
        place = places.get(known_as) if isinstance(known_as, str | int) else None
        if place is None:
            result.append(entry)
        else:
            result[place] = _merge_objects(result[place], entry)
    return result
