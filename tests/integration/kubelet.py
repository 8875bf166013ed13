"""A node without containers: pods that the real scheduler binds to it run, end and go as a test wants.

Plays the kubelet, the device plug-in and the volume provisioner. It looks at everything ten times a second and does
what is missing, so a test may change its mind at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from types import TracebackType
from typing import Self

from e2e.kube import Object
from tests.integration.server import CONFLICT, GONE, Patch, Server

NODE = "node-1"
CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "1000", "nvidia.com/gpu": "8", "nvidia.com/gpu.shared": "4"}
EVERY_SECONDS = 0.1
HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True)
class _End:
    exit_code: int
    message: str


class Kubelet:
    """The only node of a test cluster. Pods become ready at once and stop at once, unless a test says otherwise."""

    linger_seconds: float = 0.0
    """How long a deleted pod drains before it is gone."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._beat = 0.0
        self._addresses = count(1)
        self._ends: dict[str, _End] = {}
        self._waits: list[tuple[Mapping[str, str], str]] = []
        self._deleted: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._register()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    # What tests ask for

    def finish(self, pod: Object, exit_code: int = 0, message: str = "") -> None:
        """End every container of a running pod; `message` is what it leaves as its termination message."""
        self._ends[pod["metadata"]["uid"]] = _End(exit_code, message)

    @contextmanager
    def keeps_waiting(self, labels: Mapping[str, str], reason: str = "ContainerCreating") -> Iterator[None]:
        """New pods with these labels do not start, for `reason` (`ImagePullBackOff`, say), while the block lasts."""
        wait = (labels, reason)
        self._waits.append(wait)
        try:
            yield
        finally:
            self._waits.remove(wait)

    @contextmanager
    def drains_for(self, seconds: float) -> Iterator[None]:
        """Pods deleted while the block lasts take `seconds` to stop."""
        before, self.linger_seconds = self.linger_seconds, seconds
        try:
            yield
        finally:
            self.linger_seconds = before

    # The node

    def _register(self) -> None:
        self._server.request(
            "POST", "/api/v1/nodes", {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
        )
        now = _now()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        status = {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [{**ready, "lastTransitionTime": now}]}
        self._server.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})
        lease = {"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40}}
        self._server.request("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)
        self._heartbeat()

    def _heartbeat(self) -> None:
        if time.monotonic() - self._beat < HEARTBEAT_SECONDS:
            return
        self._beat = time.monotonic()
        renewed = {"spec": {"renewTime": _now(microseconds=True)}}
        self._server.request("PATCH", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}", renewed)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._heartbeat()
            for pod in self._server.items("/api/v1/pods", fieldSelector=f"spec.nodeName={NODE}"):
                self._tend(pod)
            for claim in self._server.items("/api/v1/persistentvolumeclaims"):
                self._provide(claim)

    # Pods

    def _tend(self, pod: Object) -> None:
        metadata, phase = pod["metadata"], pod.get("status", {}).get("phase")
        if "deletionTimestamp" in metadata:
            self._let_go(metadata)
        elif phase in {"Succeeded", "Failed"}:
            return
        elif (end := self._ends.pop(metadata["uid"], None)) is not None:
            state = {"terminated": {"exitCode": end.exit_code, "message": end.message, "reason": _reason(end)}}
            self._report(pod, "Succeeded" if end.exit_code == 0 else "Failed", state, ready=False)
        elif phase != "Running":
            reason = self._waiting_for(metadata.get("labels", {}))
            if reason is None:
                self._report(pod, "Running", {"running": {"startedAt": _now()}}, ready=True)
            elif not pod["status"].get("containerStatuses"):
                self._report(pod, "Pending", {"waiting": {"reason": reason}}, ready=False)

    def _waiting_for(self, labels: Mapping[str, str]) -> str | None:
        return next((reason for wanted, reason in self._waits if wanted.items() <= labels.items()), None)

    def _let_go(self, metadata: Object) -> None:
        since = self._deleted.setdefault(metadata["uid"], time.monotonic())
        grace = metadata.get("deletionGracePeriodSeconds", 0)
        if time.monotonic() - since >= min(self.linger_seconds, grace):
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            self._server.request("DELETE", path, options, fine={GONE, CONFLICT})

    def _report(self, pod: Object, phase: str, state: Object, *, ready: bool) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        address = pod["status"].get("podIP") or self._next_address()
        status = {
            "phase": phase,
            "startTime": _now(),
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": str(ready), "lastTransitionTime": _now()}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [_container(container, state, ready=ready) for container in spec["containers"]],
            "initContainerStatuses": [
                _container(container, _initialized(container, state), ready=True)
                for container in spec.get("initContainers", [])
            ],
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._server.request("PATCH", path, body, patch=Patch.STRATEGIC, fine={GONE, CONFLICT})

    def _next_address(self) -> str:
        number = next(self._addresses)
        return f"10.216.{number // 250}.{number % 250 + 1}"

    # Volumes

    def _provide(self, claim: Object) -> None:
        if claim["spec"].get("volumeName") or "deletionTimestamp" in claim["metadata"]:
            return
        metadata = claim["metadata"]
        name = f"pvc-{metadata['uid']}"
        volume = {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": claim["spec"].get("storageClassName", ""),
                "hostPath": {"path": f"/nowhere/{name}"},
                "claimRef": {key: metadata[key] for key in ("namespace", "name", "uid")},
                "persistentVolumeReclaimPolicy": "Retain",
            },
        }
        self._server.request("POST", "/api/v1/persistentvolumes", volume, fine={CONFLICT})


def _container(container: Object, state: Object, *, ready: bool) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _initialized(container: Object, state: Object) -> Object:
    """A sidecar runs as long as the pod's containers do; other init containers are done."""
    if container.get("restartPolicy") == "Always":
        return state
    return {"terminated": {"exitCode": 0, "reason": "Completed"}}


def _reason(end: _End) -> str:
    return "Completed" if end.exit_code == 0 else "Error"


def _now(*, microseconds: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if microseconds else "%Y-%m-%dT%H:%M:%SZ")
