"""The bus: one NATS server with JetStream on a claim, and beside it the exporter of its backlogs."""

from __future__ import annotations

from steelyard.api import AgenticRLJob, parse_quantity
from steelyard.api.names import BUS
from steelyard.children.common import (
    HTTP_PORT,
    Images,
    Manifest,
    bus_labels,
    bus_name,
    child,
    selector,
)
from steelyard.children.pods import CONTAINER_SECURITY, POD_SECURITY, config_mount, identity, scratch

CLIENT_PORT = 4222
MONITOR_PORT = 8222
CONFIG_KEY = "nats.conf"
FULL = 80
"""Per cent of the claim that JetStream may fill."""


def nats_config(job: AgenticRLJob) -> str:
    """Every acknowledged message is on disk: what the bus confirmed survives the machine's power."""
    store_bytes = int(parse_quantity(job.spec.checkpoints.storage.size) * FULL / 100)
    return "\n".join(
        (
            f'server_name: "{bus_name(job.metadata.name)}"',
            f"port: {CLIENT_PORT}",
            f"http_port: {MONITOR_PORT}",
            "max_payload: 8MB",
            "max_pending: 256MB",
            "jetstream {",
            "  store_dir: /data",
            "  sync_interval: always",
            f"  max_file_store: {store_bytes}",
            "}",
            "",
        )
    )


def bus(job: AgenticRLJob, replicas: int, images: Images) -> Manifest:
    name = bus_name(job.metadata.name)
    config, tmp = config_mount(job), scratch()
    health: Manifest = {"httpGet": {"path": "/healthz", "port": "monitor"}, "timeoutSeconds": 5}
    nats: Manifest = {
        "name": "nats",
        "image": images.nats,
        "imagePullPolicy": "IfNotPresent",
        "args": ["--config", f"{config.path}/{CONFIG_KEY}"],
        "ports": [
            {"name": "client", "containerPort": CLIENT_PORT, "protocol": "TCP"},
            {"name": "monitor", "containerPort": MONITOR_PORT, "protocol": "TCP"},
        ],
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": {**health, "periodSeconds": 1, "failureThreshold": 300},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**health, "periodSeconds": 2, "failureThreshold": 3},
        "volumeMounts": [config.mount, tmp.mount, {"name": "data", "mountPath": "/data"}],
    }
    exporter: Manifest = {
        "name": "exporter",
        "image": images.exporter,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "steelyard_workers.bus_exporter"],
        "env": [
            *identity(),
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "NATS_URL", "value": f"nats://localhost:{CLIENT_PORT}"},
            {"name": "PORT", "value": str(HTTP_PORT)},
            {"name": "STEELYARD_CONFIG", "value": f"{config.path}/job.json"},
            {"name": "STEELYARD_STAGE", "value": BUS},
        ],
        "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
        "securityContext": CONTAINER_SECURITY,
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "http"},
            "initialDelaySeconds": 10,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "volumeMounts": [config.mount, tmp.mount],
    }
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 60,
        "containers": [nats, exporter],
        "volumes": [config.volume, tmp.volume, {"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }
    spec: Manifest = {
        "replicas": replicas,
        "revisionHistoryLimit": 2,
        "serviceName": name,
        "selector": {"matchLabels": selector(job, BUS)},
        "template": {"metadata": {"labels": bus_labels(job)}, "spec": pod},
    }
    inputs = [job.metadata.uid, images.nats, images.exporter, nats_config(job)]
    return child(job, "apps/v1", "StatefulSet", name, {"spec": spec}, inputs=inputs, labels=bus_labels(job))


def bus_service(job: AgenticRLJob) -> Manifest:
    """A stable address: clients reconnect to it when the server moved."""
    spec: Manifest = {
        "selector": selector(job, BUS),
        "ports": [{"name": "client", "port": CLIENT_PORT, "targetPort": "client", "protocol": "TCP"}],
    }
    name = bus_name(job.metadata.name)
    return child(job, "v1", "Service", name, {"spec": spec}, inputs=[job.metadata.uid, "bus"], labels=bus_labels(job))
