"""The node's images: they share the files of buildah's, and some outlive a cluster for the next one.

Nothing is packed or copied: a snapshot of containerd's is a directory with hard links to a layer's files, which no one
changes in place, neither buildah nor a container (its writes go to a directory of its own). So two images of 2 GB load
in seconds and take no room. What a dead cluster left besides images is taken out before the kubelet sees it.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from e2e.cluster import buildah, cache, images, oci
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.shell import Failed, run, succeeds

DRAFT = "steelyard-draft"
ROOT_LABEL = "containerd.io/gc.root"
"""Set by ctr: what has it is kept, although no image needs it."""


class Store:
    """The images of a running containerd, by its socket."""

    def __init__(self, socket: Path) -> None:
        self._ctr = ("ctr", "--address", str(socket), "--namespace", "k8s.io")

    def answers(self) -> bool:
        return succeeds(*self._ctr, "version")

    def clean(self) -> None:
        """Removes containers of the dead, and images that buildah no longer has."""
        if dead := self._list("containers"):
            run(*self._ctr, "containers", "delete", *dead)
        names = self._list("images")
        kept = {tag: images.identity(tag) for tag in names if not tag.startswith("sha256:") and images.exists(tag)}
        # The kubelet's interface names each image by its identity too, which would keep it for ever.
        by_identity = {f"sha256:{identity}" for identity in kept.values()}
        if gone := [name for name in names if name not in kept and name not in by_identity]:
            run(*self._ctr, "images", "delete", *gone)

    def load(self, tag: str) -> None:
        """Makes an image of buildah's known to the runtime; to be repeated when that has been restarted.

        It forgets images whose packed layers it does not have, as these, but takes them when they are written anew.
        """
        image = buildah.image(tag)
        try:
            with cache.locked("node-images"), tempfile.NamedTemporaryFile(suffix=".tar") as archive:
                oci.write(image, archive)
                archive.flush()
                self._add_layers(image)
                run(*self._ctr, "images", "import", archive.name)
                for link in image.chain:
                    run(*self._ctr, "snapshots", "label", link.name, f"{ROOT_LABEL}=")  # now the image keeps it
        except Failed as failure:
            raise ClusterError(Exit.IMAGE_FAILED, f"cannot load {tag} into the node: {failure}") from failure

    def _add_layers(self, image: oci.Image) -> None:
        """Makes a snapshot of each layer that has none."""
        known = {line.split()[0] for line in run(*self._ctr, "snapshots", "list").splitlines()}
        if DRAFT in known:  # of a load that was killed
            run(*self._ctr, "snapshots", "remove", DRAFT)
        if missing := [link for link in image.chain if link.name not in known]:
            layers = buildah.Layers.of_buildah()
            for link in missing:
                parent = [link.parent] if link.parent else []
                mounts = json.loads(run(*self._ctr, "snapshots", "prepare", "--mounts", DRAFT, *parent))
                _link(layers.files(link.layer), upper(mounts))
                run(*self._ctr, "snapshots", "commit", link.name, DRAFT)

    def _list(self, what: str) -> list[str]:
        return run(*self._ctr, what, "list", "--quiet").split()


def forget_sandboxes(root: Path) -> None:
    """The runtime interface's own notes on containers that are no more."""
    for notes in ("sandboxes", "containers"):
        shutil.rmtree(root / "io.containerd.grpc.v1.cri" / notes, ignore_errors=True)


def upper(mounts: list[dict[str, Any]]) -> Path:
    """The directory that takes the changes when a snapshot is mounted so: the lowest one is a plain directory."""
    (mount,) = mounts
    options = dict(option.partition("=")[::2] for option in mount["Options"])
    return Path(options.get("upperdir") or mount["Source"])


def _link(source: Path, target: Path) -> None:
    """Fills a directory with a tree whose files the two share, where they lie on one filesystem."""
    share = ["--link"] if source.stat().st_dev == target.stat().st_dev else []
    run("cp", "--archive", *share, "--no-target-directory", source, target)
