"""A service of the cluster that leads to this process, by way of the API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from e2e.cluster.cluster import Cluster

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@contextmanager
def service(cluster: Cluster, namespace: str, handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """`prometheus:9090` of the namespace, answered by `handler` while the block lasts."""
    host = str(cluster.subnets.host)
    server = ThreadingHTTPServer((host, 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_port
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "prometheus", "namespace": namespace},
           "spec": {"containers": [{"name": "p", "image": "p", "securityContext": RESTRICTED}],
                    "schedulerName": "nobody"}}  # fmt: skip
    found = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "prometheus", "namespace": namespace},
             "spec": {"ports": [{"port": 9090, "targetPort": port}]}}  # fmt: skip
    target = {"kind": "Pod", "name": "prometheus", "namespace": namespace}
    labels = {"kubernetes.io/service-name": "prometheus"}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "prometheus", "namespace": namespace, "labels": labels},
        "ports": [{"port": port}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}, "targetRef": target}],
    }  # fmt: skip
    objects = {"apiVersion": "v1", "kind": "List", "items": [pod, found, endpoints]}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(objects))
    status = json.dumps({"status": {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}]}})
    where = ("pod", "prometheus", f"--namespace={namespace}", "--subresource=status")
    cluster.kubectl("patch", *where, "--type=merge", f"--patch={status}")
    try:
        yield f"{namespace}/prometheus:9090"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
