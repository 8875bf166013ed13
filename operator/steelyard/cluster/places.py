"""Where Prometheus is: at a URL, or a service of the cluster behind the API server. Pure, and light to import."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SERVICE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9-]+):(?P<port>[a-z0-9-]+)")
IN_CLUSTER = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)(\.svc(\.[a-z0-9.-]+)?)?")


class NoPrometheus(Exception):
    """Nothing says where Prometheus is, or nobody answers there as Prometheus would."""


@dataclass(frozen=True)
class Place:
    """Somewhere Prometheus may answer."""

    name: str
    """As people write it, without credentials."""
    base: str
    """Its URL; of a service of the cluster the path of the API server under which it answers."""
    in_cluster: bool = False

    def __str__(self) -> str:
        return self.name


def place_of(text: str, *, from_inside: bool = False) -> Place:
    """What `--prometheus` names: `http(s)://...`, or `namespace/service:port`. NoPrometheus when it is neither.

    `from_inside`: it was said to a pod, so that `http://prometheus.monitoring:9090` is a service.
    """
    if found := SERVICE.fullmatch(text):
        return _service(found["namespace"], found["name"], found["port"])
    try:
        url = urlsplit(text)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError as error:
        raise NoPrometheus(f"{text}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise NoPrometheus(f"{text}: neither http(s)://host:port nor namespace/service:port")
    if from_inside and (found := IN_CLUSTER.fullmatch(url.hostname)):
        scheme = "https:" if url.scheme == "https" else ""
        return _service(found["namespace"], found["name"], str(port), url.path.rstrip("/"), scheme)
    return Place(url._replace(netloc=url.netloc.rpartition("@")[2]).geturl(), text)


def _service(namespace: str, name: str, port: str, path: str = "", scheme: str = "") -> Place:
    proxy = f"/api/v1/namespaces/{namespace}/services/{scheme}{name}:{port}/proxy{path}"
    return Place(f"{namespace}/{name}:{port}", proxy, in_cluster=True)
