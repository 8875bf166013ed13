"""The fewest writes: what is there against what is wanted."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.children.common import ANNOTATION_DIGEST, Manifest
from steelyard.cluster.changes import Action, changes
from steelyard.cluster.records import Child

OWNER = "uid-of-the-job"


def wanted(kind: str = "Deployment", replicas: int | None = 2, digest: str = "new") -> Manifest:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"kind": kind, "metadata": {"name": "x", "annotations": {ANNOTATION_DIGEST: digest}}, "spec": spec}


def there(kind: str = "Deployment", **fields: Any) -> Child:
    defaults: dict[str, Any] = {"owner": OWNER, "digest": "new", "touched_by": None, "replicas": 2, "edition": 5}
    return Child(kind=kind, name="x", uid="uid-x", resource_version=9, **{**defaults, **fields})


CASES: dict[str, tuple[Manifest | None, Child | None, list[tuple[Action, str | None]]]] = {
    "a missing child is applied": (wanted(), None, [(Action.APPLY, None)]),
    "a child as wanted is left alone": (wanted(), there(), []),
    "another input is applied": (wanted(), there(digest="old"), [(Action.APPLY, None)]),
    "replicas alone are scaled": (wanted(replicas=3), there(), [(Action.SCALE, None)]),
    "from nothing the template is applied too": (wanted(replicas=1), there(replicas=0), [(Action.APPLY, None)]),
    "replicas of somebody else are left alone": (wanted(replicas=None), there(replicas=7), []),
    "a touched child is applied again": (wanted(), there(touched_by="kubectl"), [(Action.APPLY, "kubectl")]),
    "a touch that our last write left as it is": (wanted(), there(touched_by="kubectl", edition=4), []),
    "a child that is going is waited for": (wanted(), there(deleting=True, digest="old"), []),
    "a child of an earlier job is waited for": (wanted(), there(owner="another"), []),
    "an orphan is adopted when its input differs": (wanted(), there(owner=None, digest=None), [(Action.APPLY, None)]),
    "what is not wanted any more goes": (None, there(), [(Action.DELETE, None)]),
    "a claim never goes": (None, there("PersistentVolumeClaim"), []),
    "a claim that was bound is not drift": (
        wanted("PersistentVolumeClaim", None),
        there("PersistentVolumeClaim", touched_by="kube-controller-manager"),
        [],
    ),
    "what belongs to another job is not ours to delete": (None, there(owner="another"), []),
    "a Job of another input goes before its successor comes": (
        wanted("Job", None),
        there("Job", digest="old", replicas=1),
        [(Action.DELETE, None)],
    ),
    "a Job that somebody suspended goes on": (wanted("Job", None), there("Job", replicas=0), [(Action.SCALE, None)]),
    "a Job that ended stays": (wanted("Job", None), there("Job", replicas=0, outcome="Complete"), []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written(case: str) -> None:
    manifest, child, want = CASES[case]
    have = {(child.kind, child.name): child} if child else {}

    plan = changes(OWNER, [manifest] if manifest else [], have, {"uid-x": 4})

    assert [(change.action, change.drift) for change in plan] == want
