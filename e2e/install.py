"""Puts the operator from `manifests/base` into a cluster, with the images that were just built."""

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.cluster import Cluster
from e2e.kube import Object

MANIFESTS = Path(__file__).parent.parent / "manifests"
NAMESPACE = "steelyard-system"
PROMETHEUS = "http://prometheus.monitoring.svc:9090"
IMAGES = {
    "STEELYARD_IMAGE_SAMPLER": "sampler",
    "STEELYARD_IMAGE_ENVIRONMENT": "worker",
    "STEELYARD_IMAGE_REWARD_SERVER": "worker",
    "STEELYARD_IMAGE_TRAINER": "trainer",
    "STEELYARD_IMAGE_NATS": "nats",
}


def install_operator(cluster: Cluster, images: Mapping[str, str]) -> None:
    """`images` maps the Dockerfile's targets to tags the node knows. Returns when the operator is ready."""
    rendered = cluster.kubectl("kustomize", str(MANIFESTS / "base"))
    documents = [document for document in yaml.safe_load_all(rendered) if document]
    for document in documents:
        if document["kind"] == "Deployment":
            _use(document, images)
    everything = {"apiVersion": "v1", "kind": "List", "items": documents}
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(everything))
    cluster.kubectl("rollout", "status", f"--namespace={NAMESPACE}", "deployment/steelyard-operator", timeout=120)


def _use(deployment: Object, images: Mapping[str, str]) -> None:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["image"] = images["operator"]
    values = {variable: images[target] for variable, target in IMAGES.items()}
    values["STEELYARD_PROMETHEUS_URL"] = PROMETHEUS
    kept = [variable for variable in container.get("env", []) if variable["name"] not in values]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in values.items())]
