"""Puts the operator into a cluster by the manifests as they are: the node has the images under their public names."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from e2e.cluster import Cluster
from e2e.cluster.shell import run

MANIFESTS = Path(__file__).parent.parent / "manifests"
NAMESPACE = "steelyard-system"
REGISTRY = "ghcr.io/steelyard"


def load_release(cluster: Cluster, images: Mapping[str, str]) -> None:
    """`images` maps the Dockerfile's targets to tags of buildah's; they become this version's release on the node."""
    for target, tag in images.items():
        name = f"{REGISTRY}/{target}:{version('steelyard')}"
        run("buildah", "tag", tag, name)
        cluster.load(name)


def install_operator(cluster: Cluster) -> None:
    """By kustomize, for all namespaces. Returns when the operator acts."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--kustomize", MANIFESTS / "overlays/cluster")
    cluster.kubectl("rollout", "status", f"--namespace={NAMESPACE}", "deployment/steelyard-operator", timeout=120)
