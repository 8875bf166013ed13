"""Images as the OCI names them, and how one is introduced to a node that gets its layers another way."""

import hashlib
import json
import tarfile
from dataclasses import dataclass
from io import BytesIO
from typing import IO

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Link:
    """A layer on top of others, by the name that the OCI gives to all of them together (ChainID)."""

    name: str
    parent: str
    layer: str


@dataclass(frozen=True)
class Image:
    """What was stored for a tag, to the byte: the digests are those of these texts."""

    tag: str
    manifest: str
    config: str

    @property
    def layers(self) -> tuple[str, ...]:
        """The digest of each layer's uncompressed tar, the lowest first."""
        return tuple(json.loads(self.config)["rootfs"]["diff_ids"])

    @property
    def chain(self) -> tuple[Link, ...]:
        links: list[Link] = []
        for layer in self.layers:
            parent = links[-1].name if links else ""
            links.append(Link(digest(f"{parent} {layer}") if parent else layer, parent, layer))
        return tuple(links)


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def write(image: Image, out: IO[bytes]) -> None:
    """A tar for `ctr images import`, without any layer."""
    entry = {
        "mediaType": MANIFEST,
        "digest": digest(image.manifest),
        "size": len(image.manifest.encode()),
        "annotations": {"io.containerd.image.name": image.tag},
    }
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}),
        **{f"blobs/{digest(text).replace(':', '/')}": text for text in (image.manifest, image.config)},
    }
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, BytesIO(text.encode()))
