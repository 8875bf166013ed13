"""A small synchronous Kubernetes client for the demo and the scenarios: read, wait, server-side apply, delete.

The operator's own client is not used here on purpose: what is tested must not also be the tester.
"""

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import yaml

Object = dict[str, Any]
T = TypeVar("T")

PLURALS = {
    "AgenticRLJob": ("apis/steelyard.dev/v1alpha1", "agenticrljobs"),
    "AllocationRevision": ("apis/steelyard.dev/v1alpha1", "allocationrevisions"),
    "RLPool": ("apis/steelyard.dev/v1alpha1", "rlpools"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "StatefulSet": ("apis/apps/v1", "statefulsets"),
    "Job": ("apis/batch/v1", "jobs"),
    "Pod": ("api/v1", "pods"),
    "Event": ("api/v1", "events"),
    "ConfigMap": ("api/v1", "configmaps"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "PersistentVolume": ("api/v1", "persistentvolumes"),
    "Namespace": ("api/v1", "namespaces"),
    "Service": ("api/v1", "services"),
}


class Kube:
    """Requests to one API server with the token of a kubeconfig file."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        headers = {"Authorization": f"Bearer {user['token']}"}
        self.kubeconfig = kubeconfig
        self._http = httpx.Client(
            base_url=cluster["server"], verify=context, headers=headers, timeout=30, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it does not exist."""
        response = self._send("GET", _path(kind, namespace, name))
        return None if response.status_code == 404 else _body(response)

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        items: list[Object] = _body(self._send("GET", _path(kind, namespace), params={"labelSelector": selector}))[
            "items"
        ]
        return items

    def apply(self, manifests: Iterable[Object], namespace: str = "default") -> None:
        """Server-side apply under the field manager `user`, as `kubectl apply --server-side` does."""
        for manifest in manifests:
            metadata = manifest["metadata"]
            path = _path(manifest["kind"], metadata.get("namespace", namespace), metadata["name"])
            _body(
                self._send(
                    "PATCH",
                    path,
                    params={"fieldManager": "user", "force": "true"},
                    content=json.dumps(manifest),
                    headers={"Content-Type": "application/apply-patch+yaml"},
                )
            )

    def patch(self, kind: str, namespace: str | None, name: str, patch: Object) -> Object:
        """JSON merge patch."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return _body(self._send("PATCH", _path(kind, namespace, name), json=patch, headers=headers))

    def delete(self, kind: str, namespace: str | None, name: str, grace_seconds: int | None = None) -> None:
        params = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        response = self._send("DELETE", _path(kind, namespace, name), params=params)
        if response.status_code != 404:
            _body(response)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Asks again when the server says "not now", as it does for seconds after a CRD was installed."""
        while True:
            response = self._http.request(method, path, **request)
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS:
                return response
            time.sleep(float(response.headers.get("Retry-After", 1)))

    def address(self, namespace: str, service: str) -> str:
        """Where this machine reaches a Service of the embedded cluster: its own address, or a pod's when headless.

        LookupError when there is nothing behind it.
        """
        found = self.get("Service", namespace, service)
        if found is None:
            raise LookupError(f"no Service {namespace}/{service}")
        if (own := found["spec"]["clusterIP"]) != "None":
            return str(own)
        selector = ",".join(f"{key}={value}" for key, value in found["spec"]["selector"].items())
        for pod in self.list("Pod", namespace, selector):
            if ip := pod["status"].get("podIP"):
                return str(ip)
        raise LookupError(f"no pod behind Service {namespace}/{service}")


def wait_for(what: str, probe: Callable[[], T | None], seconds: float, every: float = 0.5) -> T:
    """The first truthy answer of `probe`; TimeoutError names what was awaited and the last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} s (last answer: {answer!r})")
        time.sleep(every)


def load_yaml(path: Path) -> list[Object]:
    """Every document of a manifest file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def condition(obj: Object | None, kind: str) -> Object:
    """A condition of an object's status, {} when absent."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def _path(kind: str, namespace: str | None, name: str | None = None) -> str:
    api, plural = PLURALS[kind]
    cluster_scoped = kind in {"Namespace", "PersistentVolume", "RLPool"}
    scope = "" if namespace is None or cluster_scoped else f"/namespaces/{namespace}"
    return f"/{api}{scope}/{plural}" + (f"/{name}" if name else "")


def _body(response: httpx.Response) -> Object:
    if response.is_error:
        raise RuntimeError(
            f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}"
        )
    body: Object = response.json()
    return body
