"""An Event about one of our objects, as `kubectl describe` shows it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from steelyard.api import ObjectMeta
from steelyard.cluster.kinds import Kind, Object

CLUSTER_SCOPED = "default"
"""Where events about objects without a namespace are kept."""


def event_about(kind: Kind, of: ObjectMeta, severity: str, reason: str, message: str) -> Object:
    """`severity` is Normal or Warning."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": kind.api_version, "kind": kind.name, "name": of.name, "uid": of.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{of.name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": of.namespace or CLUSTER_SCOPED},
        "involvedObject": {**about, **({"namespace": of.namespace} if of.namespace else {})},
        "type": severity,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": "steelyard"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
