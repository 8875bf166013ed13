"""Who keeps an object like its manifest in Git, and what to change there. Pure.

What Git says comes back within minutes, so nothing here writes to the spec of an object that Git owns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from steelyard.api.names import API_VERSION, JOB_KIND

_MARKS = (
    ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD"),
    ("labels", "argocd.argoproj.io/instance", "Argo CD"),
    ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("labels", "helm.toolkit.fluxcd.io/name", "Flux"),
)
"""What the tools write on every object they apply; `app.kubernetes.io/instance` says nothing, Helm writes it too."""
_MANAGERS = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
}


def git_owner(metadata: Mapping[str, Any]) -> str | None:
    """`Argo CD (web)` or `Flux (apps)`, from the marks the tool leaves or from who wrote the spec; None for neither."""
    for where, key, tool in _MARKS:
        if name := (metadata.get(where) or {}).get(key):
            return f"{tool} ({str(name).partition(':')[0]})"
    managers = (entry["manager"] for entry in metadata.get("managedFields") or () if not entry.get("subresource"))
    return next((_MANAGERS[manager] for manager in managers if manager in _MANAGERS), None)


def patch_for_git(namespace: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A patch of a job: for kustomize as it is, for people to copy into the manifest."""
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def as_yaml(patch: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(patch), sort_keys=False)
    return text.rstrip()
