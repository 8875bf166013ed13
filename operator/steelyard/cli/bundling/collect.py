"""What goes into a bundle, read part by part: a part that cannot be read is named with the reason, the rest goes on.

Secrets are never asked for. Nothing leaves this module that has not passed the redactor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import yaml

from steelyard.api.names import LABEL_JOB, LABEL_STAGE
from steelyard.cli.bundling.redact import Redactor
from steelyard.cli.session import Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError, NotFound
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.kubectl import Kubectl
from steelyard.cluster.prometheus_access import OPERATOR, operators

REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets")
LISTED: tuple[tuple[str, Kind], ...] = (
    ("revisions.yaml", kinds.REVISION),
    *((f"children/{kind.plural}.yaml", kind) for kind in (*kinds.CHILDREN, REPLICA_SET, kinds.AUTOSCALER)),
    ("pods.yaml", kinds.POD),
)
"""File and kind of what carries the label of its job."""
LOGS = "logs/"
MANIFEST = "manifest.yaml"
READ_SECONDS = "120s"


@dataclass(frozen=True)
class Part:
    """One file of a bundle."""

    file: str
    what: str
    read: Callable[[], Any]
    """Objects for a YAML document, or text."""


@dataclass
class Bundle:
    """What was collected so far."""

    redactor: Redactor = field(default_factory=Redactor)
    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """File -> why it could not be read."""
    gone: list[str] = field(default_factory=list)
    """Logs of pods that went between the look at the pods and the read."""

    def add(self, part: Part, found: Any) -> None:
        """Take in what a read came to. Kinds that the cluster does not know leave no trace."""
        if isinstance(found, NotFound) and part.file.startswith("children/"):
            return
        if isinstance(found, NotFound) and part.file.startswith(LOGS):
            self.gone.append(part.file)
            return
        if isinstance(found, ClusterError):
            self.missing[part.file] = str(found)
        elif isinstance(found, str):
            self.files[part.file] = self.redactor.text(part.file, found)
        elif found:
            self.files[part.file] = self.redactor.document(part.file, found)

    def manifest(self, asked: dict[str, Any]) -> str:
        """What is in it, what is missing and why, what was withheld where and why; no value of it."""
        withheld: dict[str, dict[str, int]] = {}
        for (file, what), times in sorted(self.redactor.withheld.items()):
            withheld.setdefault(file, {})[what] = times
        content = {
            **asked,
            "files": sorted(self.files),
            "missing": self.missing,
            "goneMeanwhile": self.gone,
            "withheld": withheld,
            "neverRead": ["Secrets", "ConfigMaps and claims that are yours: model, tasks, code"],
        }
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10**9)


def object_parts(session: Session, job: str | None) -> list[Part]:
    """Every part but the logs. All jobs of the namespace when none is named."""
    kubectl, namespace = session.kubectl, session.namespace
    selector = f"{LABEL_JOB}={job}" if job else LABEL_JOB

    def listed(kind: Kind) -> Callable[[], list[Object]]:
        return lambda: _named(kind, kubectl.objects(kind, namespace, selector=chosen(kind)))

    def chosen(kind: Kind) -> str:
        return "" if kind is kinds.AUTOSCALER else selector

    def jobs() -> list[Object]:
        found = [session.job(job)] if job else kubectl.objects(kinds.JOB, namespace)
        return _named(kinds.JOB, found)

    return [
        Part("jobs.yaml", "the AgenticRLJob, or all of the namespace", jobs),
        *(Part(file, f"{kind.plural} of the job", listed(kind)) for file, kind in LISTED),
        Part("quotas.yaml", "ResourceQuotas", lambda: _named(kinds.QUOTA, kubectl.objects(kinds.QUOTA, namespace))),
        Part("pools.yaml", "RLPools", lambda: _named(kinds.POOL, kubectl.objects(kinds.POOL))),
        Part("events.yaml", "Events about all of these", lambda: kubectl.objects(kinds.EVENT, namespace)),
        Part("operator.yaml", "the operator's Deployment", lambda: operators(kubectl)),
        Part("versions.yaml", "versions of this tool, kubectl and Kubernetes", lambda: _versions(kubectl)),
    ]


def _named(kind: Kind, objects: list[Object]) -> list[Object]:
    """Items of a list do not say what they are."""
    return [{"apiVersion": kind.api_version, "kind": kind.name, **obj} for obj in objects]


def _versions(kubectl: Kubectl) -> dict[str, Any]:
    return {"steelyard": metadata.version("steelyard"), **json.loads(kubectl.run("version", "--output=json"))}


def log_parts(kubectl: Kubectl, pods: Sequence[Object], lines: int) -> Iterator[Part]:
    """The newest lines of every container, and of its predecessor where one ended."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        name, stage = pod["metadata"]["name"], (pod["metadata"].get("labels") or {}).get(LABEL_STAGE, "operator")
        spec, status = pod["spec"], pod.get("status") or {}
        restarts = {
            one["name"]: one.get("restartCount", 0)
            for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        }
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            file = f"{LOGS}{stage}/{name}.{container['name']}"
            yield Part(f"{file}.log", "", _log(kubectl, pod, container["name"], lines))
            if restarts.get(container["name"]):
                yield Part(f"{file}.previous.log", "", _log(kubectl, pod, container["name"], lines, previous="true"))


def _log(kubectl: Kubectl, pod: Object, container: str, lines: int, previous: str = "false") -> Callable[[], str]:
    def read() -> str:
        where = pod["metadata"]["namespace"], pod["metadata"]["name"]
        options = {"timestamps": "true", "previous": previous, "request-timeout": READ_SECONDS}
        found = kubectl.logs(*where, container=container, follow=False, tail=str(lines), **options)
        return "".join(f"{line}\n" for line in found)

    return read


def operator_pods(kubectl: Kubectl) -> list[Object]:
    """Pods of the operator, in whatever namespace it is."""
    namespaces = dict.fromkeys(deployment["metadata"]["namespace"] for deployment in operators(kubectl))
    return [pod for namespace in namespaces for pod in kubectl.objects(kinds.POD, namespace, selector=OPERATOR)]


def about(events: Sequence[Object], objects: Sequence[Object]) -> list[Object]:
    """Events about these objects, or about the pods that they made."""
    names = {str(obj["metadata"]["name"]) for obj in objects}
    makers = tuple(f"{obj['metadata']['name']}-" for obj in objects if "template" in (obj.get("spec") or {}))
    return [event for event in events if _of(event, names, makers)]


def _of(event: Object, names: set[str], makers: tuple[str, ...]) -> bool:
    name = str((event.get("involvedObject") or event.get("regarding") or {}).get("name", ""))
    return name in names or name.startswith(makers)
