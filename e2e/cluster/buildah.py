"""What is in buildah's store: images by their tags, and their layers, each unpacked in a directory of its own."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.oci import Image
from e2e.cluster.shell import Failed, run


def image(tag: str) -> Image:
    try:
        known = json.loads(run("buildah", "inspect", "--type", "image", tag))
    except Failed as unknown:
        raise ClusterError(Exit.IMAGE_FAILED, f"buildah has no image {tag}: build it first") from unknown
    return Image(tag, known["Manifest"], known["Config"])


@dataclass(frozen=True)
class Layers:
    root: Path

    @classmethod
    def of_buildah(cls) -> Self:
        store = json.loads(run("buildah", "info"))["store"]
        if store["GraphDriverName"] != "overlay":
            reason = f"buildah's storage driver is {store['GraphDriverName']}, the node shares layers of overlay only"
            raise ClusterError(Exit.IMAGE_FAILED, f"{reason}: remove `driver` from storage.conf")
        return cls(Path(store["GraphRoot"]))

    def files(self, digest: str) -> Path:
        """What a layer changes of those below, as overlayfs wants an upper directory."""
        if digest not in self._names:
            raise ClusterError(Exit.IMAGE_FAILED, f"buildah has no layer {digest}: build its image anew")
        return self.root / "overlay" / self._names[digest] / "diff"

    @cached_property
    def _names(self) -> dict[str, str]:
        """By the digest of the uncompressed tar; a layer of a container that still changes has none."""
        known = json.loads((self.root / "overlay-layers/layers.json").read_text())
        return {layer["diff-digest"]: layer["id"] for layer in known if "diff-digest" in layer}
