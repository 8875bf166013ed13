"""Pure: what is wanted and what is there -> the fewest writes. No write when nothing changed.

A child is written again when the digest of its input changed, when somebody else wrote to it since, or when it starts
from nothing; a change of replicas alone is a patch of replicas alone and leaves the template of a running job be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from steelyard.children.common import ANNOTATION_DIGEST, Manifest
from steelyard.cluster.records import Child

KEPT_KINDS = frozenset({"PersistentVolumeClaim"})
"""Data: never removed because a rendering no longer names it, and bound by others after us."""
REPLACED_KINDS = frozenset({"Job"})
"""Their templates are immutable: another input means another object, once the old one is gone."""
SCALED_KINDS = frozenset({"Deployment", "StatefulSet"})


class Action(StrEnum):
    APPLY = "apply"
    SCALE = "scale"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """One write. `drift` names who changed the child behind our back, when that is the cause."""

    action: Action
    kind: str
    name: str
    manifest: Manifest | None = None
    child: Child | None = None
    drift: str | None = None


def changes(
    owner: str,
    wanted: Iterable[Manifest],
    have: Mapping[tuple[str, str], Child],
    acknowledged: Mapping[str, int],
) -> list[Change]:
    """`owner` is the job's uid; `acknowledged` maps a child's uid to the edition our last write left it at."""
    plan: list[Change] = []
    names = set()
    for manifest in wanted:
        key = manifest["kind"], manifest["metadata"]["name"]
        names.add(key)
        if change := _change(owner, manifest, have.get(key), acknowledged):
            plan.append(change)
    plan += [
        Change(Action.DELETE, child.kind, child.name, child=child)
        for key, child in have.items()
        if key not in names and child.kind not in KEPT_KINDS and child.owner == owner and not child.deleting
    ]
    return plan


def _change(owner: str, manifest: Manifest, child: Child | None, acknowledged: Mapping[str, int]) -> Change | None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if child is None:
        return Change(Action.APPLY, kind, name, manifest)
    if child.deleting or child.owner not in (None, owner):
        return None  # it goes away by itself; its place is taken when it is gone
    if child.digest != manifest["metadata"]["annotations"][ANNOTATION_DIGEST]:
        action = Action.DELETE if kind in REPLACED_KINDS else Action.APPLY
        return Change(action, kind, name, manifest, child)
    drift = child.touched_by if child.edition != acknowledged.get(child.uid) else None
    if kind in REPLACED_KINDS:
        stopped = child.replicas == 0 and child.outcome is None
        return Change(Action.SCALE, kind, name, manifest, child, drift) if stopped else None
    if drift and kind not in KEPT_KINDS:
        return Change(Action.APPLY, kind, name, manifest, child, drift)
    if kind in SCALED_KINDS and manifest["spec"].get("replicas", child.replicas) != child.replicas:
        return Change(Action.APPLY if child.replicas == 0 else Action.SCALE, kind, name, manifest, child)
    return None
