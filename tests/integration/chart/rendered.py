"""What tests ask of rendered objects."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from e2e.helm import CHART, RELEASE
from e2e.kube import Object
from e2e.manifests import ALL_MONITORING

EVERYTHING: Object = {
    "prometheus": {"bundled": {"enabled": True, "storage": "10Gi"}},
    "networkPolicy": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "priorityClasses": {"create": True},
    "monitoring": ALL_MONITORING,
}
"""Whatever the chart can make, for all namespaces."""
NARROW: Object = {**EVERYTHING, "prometheus": {"bundled": {"enabled": True}}, "watchNamespaces": ["team-a", "team-b"]}
"""The same for two namespaces, with a Prometheus that has no claim."""

MONITORS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""What only a cluster with the Prometheus Operator knows."""
INSTALL = ("install", RELEASE, CHART, "--namespace=team-a", "--dry-run=server", "--take-ownership")

CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass", "Namespace"}


def name(obj: Object) -> str:
    """Kind, namespace and name in one word."""
    metadata = obj["metadata"]
    return "/".join([obj["kind"], *([metadata["namespace"]] if "namespace" in metadata else []), metadata["name"]])


def by_name(objects: Iterable[Object]) -> dict[str, Object]:
    return {name(obj): obj for obj in objects}


def only(objects: Iterable[Object], kind: str, ending: str = "") -> Object:
    """The one object of a kind whose name ends so."""
    (found,) = (obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"].endswith(ending))
    return found


def pods(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """The spec of every pod that the objects lead to, with the name of its object."""
    for obj in objects:
        if obj["kind"] == "Deployment":
            yield name(obj), obj["spec"]["template"]["spec"]
        elif obj["kind"] == "Pod":
            yield name(obj), obj["spec"]


def containers(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    for where, pod in pods(objects):
        for container in pod["containers"]:
            yield f"{where}/{container['name']}", container


def settings(objects: Iterable[Object]) -> dict[str, Any]:
    """The operator's environment, by name."""
    deployment = only(objects, "Deployment", "-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def listed(objects: list[Object]) -> str:
    """For kubectl to read."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
