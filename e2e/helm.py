"""Helm 3 and Helm 4 as their users run them, built from their Go modules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster import build
from e2e.cluster.build import Module
from e2e.cluster.progress import Progress
from e2e.cluster.shell import run
from e2e.kube import Object

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "steelyard"
RELEASE, NAMESPACE = "steelyard", "steelyard-system"
PROMETHEUS_OPERATOR = tuple(
    f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")
)
MODULES = {3: build.HELM3, 4: build.HELM4}


@dataclass(frozen=True)
class Helm:
    """One version of it, with its own home; `kubeconfig` is only for what asks a cluster."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def __call__(self, *arguments: str | Path, values: Object | None = None, timeout: float = 180) -> str:
        """Standard output of a command that succeeded; Failed carries what it said."""
        given: Sequence[str] = () if values is None else ("--values=-",)
        stdin = None if values is None else json.dumps(values)
        return run(self.program, *arguments, *given, stdin=stdin, env=self.environment(), timeout=timeout)

    def environment(self) -> dict[str, str]:
        """The variables that keep it away from its user's own settings."""
        homes = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return homes | ({"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {})

    def template(
        self,
        values: Object | None = None,
        *,
        namespace: str = NAMESPACE,
        release: str = RELEASE,
        kinds: Sequence[str] = PROMETHEUS_OPERATOR,
    ) -> str:
        """The chart's manifests as text, for a cluster that has these kinds beside Kubernetes' own."""
        asked = [f"--api-versions={kind}" for kind in kinds]
        return self("template", release, CHART, f"--namespace={namespace}", *asked, values=values or {})

    def objects(self, values: Object | None = None, **options: str) -> list[Object]:
        """The same as objects, the pod of `helm test` included."""
        return documents(self.template(values, **options))


def documents(text: str) -> list[Object]:
    """The objects of a stream; the fast loader, for the CRDs are long."""
    return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]


def helm(major: int, home: Path, kubeconfig: Path | None = None, progress: Progress | None = None) -> Helm:
    """Helm 3 or 4, built when this machine has not got it."""
    module: Module = MODULES[major]
    return Helm(build.ensure(module, progress or Progress()) / "helm", home, kubeconfig)
