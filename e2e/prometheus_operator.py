"""The resources of the Prometheus Operator, as its Go module has them: Go fetches them once and keeps them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.cluster import Cluster
from e2e.cluster.shell import run

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CHECKSUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
PLURALS = ("podmonitors", "prometheusrules", "servicemonitors")


@contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """They are there while the block lasts."""
    files = [f"--filename={path}" for path in _files()]
    cluster.kubectl("apply", "--server-side", *files)
    try:
        cluster.kubectl("wait", "--for=condition=Established", *files)
        yield
    finally:
        cluster.kubectl("delete", "--ignore-not-found", *files)


def _files() -> list[Path]:
    found = json.loads(run("go", "mod", "download", "-json", MODULE))
    assert found["Sum"] == CHECKSUM, f"{MODULE} is another one than it was: {found['Sum']}"
    folder = Path(found["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{plural}.yaml" for plural in PLURALS]
