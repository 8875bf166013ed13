"""Headless Services: their DNS names list the ready replicas, and clients choose among them."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, Stage
from steelyard.children.common import HTTP_PORT, Manifest, child, pod_labels, selector, service_name


def headless(job: AgenticRLJob, stage: Stage) -> Manifest:
    name = service_name(job.metadata.name, stage)
    spec: Manifest = {
        "clusterIP": "None",
        "publishNotReadyAddresses": False,
        "selector": selector(job, stage.value),
        "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP"}],
    }
    labels = pod_labels(job, stage.value)
    return child(job, "v1", "Service", name, {"spec": spec}, inputs=[job.metadata.uid, "headless"], labels=labels)
