"""`python -m e2e.manifests`: write what `manifests/` has of the chart, for people who use kustomize instead of Helm."""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.helm import ROOT, Helm, helm
from e2e.kube import Object

_HEADER = "# Generated from charts/steelyard by `make manifests`; do not edit.\n"
_SOURCE = re.compile(r"^# Source: steelyard/templates/(?P<template>\S+)\n", re.MULTILINE)
_HELMS_OWN = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)

ALL_MONITORING: Object = {
    "serviceMonitor": {"enabled": True},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
NAMESPACED: Object = {"watchNamespaces": ["steelyard-system"], "crds": {"install": False}, "rbac": {"userRoles": False}}
FOLDERS: dict[str, tuple[Object, tuple[str, ...]]] = {
    "base": ({}, ("serviceaccount.yaml", "lease.yaml", "service.yaml", "deployment.yaml")),
    "overlays/cluster": ({}, ("rbac.yaml", "user-roles.yaml")),
    "overlays/namespaced": (NAMESPACED, ("rbac.yaml",)),
    "overlays/monitoring": (
        {"monitoring": ALL_MONITORING},
        ("monitoring/servicemonitor.yaml", "monitoring/podmonitor.yaml", "monitoring/prometheusrule.yaml"),
    ),
}
"""Folder of `manifests/` -> the values it stands for, and which templates it has; the others it has from its base."""


def generated(helm: Helm) -> dict[str, str]:
    """Path below `manifests/` -> content."""
    files = {}
    for folder, (values, templates) in FOLDERS.items():
        texts = dict(_by_template(helm.template(values)))
        for template in templates:
            files[f"{folder}/{Path(template).name}"] = _HEADER + texts[template]
    return files


def _by_template(rendered: str) -> Iterator[tuple[str, str]]:
    """Each template's documents, without the labels by which Helm knows its own."""
    documents: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        if found := _SOURCE.match(document):
            text = _HELMS_OWN.sub("", document[found.end() :]).strip("\n")
            documents.setdefault(found["template"], []).append(f"{text}\n")
    return ((template, "---\n".join(texts)) for template, texts in documents.items())


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        for name, content in generated(helm(4, Path(home))).items():
            path = ROOT / "manifests" / name
            if not path.exists() or path.read_text() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
                sys.stdout.write(f"written: manifests/{name}\n")


if __name__ == "__main__":
    main()
