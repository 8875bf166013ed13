"""The kinds of objects the operator reads and writes, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.api.names import (
    API_VERSION,
    JOB_KIND,
    JOB_PLURAL,
    POOL_KIND,
    POOL_PLURAL,
    REVISION_KIND,
    REVISION_PLURAL,
)

Object = dict[str, Any]
"""One object as the API server writes it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object. Of ours only pools have no namespace."""

    name: str
    api_version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, an object or its subresource; all namespaces when none is given."""
        root = "/api" if "/" not in self.api_version else "/apis"
        steps = [root, self.api_version, namespace and f"namespaces/{namespace}", self.plural, name, subresource]
        return "/".join(step for step in steps if step)


JOB = Kind(JOB_KIND, API_VERSION, JOB_PLURAL)
REVISION = Kind(REVISION_KIND, API_VERSION, REVISION_PLURAL)
POOL = Kind(POOL_KIND, API_VERSION, POOL_PLURAL)
POD = Kind("Pod", "v1", "pods")
EVENT = Kind("Event", "v1", "events")
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases")
AUTOSCALER = Kind("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers")
QUOTA = Kind("ResourceQuota", "v1", "resourcequotas")
POD_MONITOR = Kind("PodMonitor", "monitoring.coreos.com/v1", "podmonitors")

CHILDREN: tuple[Kind, ...] = (
    Kind("ConfigMap", "v1", "configmaps"),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    Kind("Service", "v1", "services"),
    Kind("StatefulSet", "apps/v1", "statefulsets"),
    Kind("Deployment", "apps/v1", "deployments"),
    Kind("Job", "batch/v1", "jobs"),
    POD_MONITOR,
)
"""What a job is made of, in the order in which it is created."""

BY_NAME = {kind.name: kind for kind in CHILDREN}
