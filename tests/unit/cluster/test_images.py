"""What is read of buildah's store, and what is told to containerd, agree with their formats."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import oci, store
from e2e.cluster.buildah import Layers
from e2e.cluster.errors import ClusterError

A, B = (f"sha256:{letter * 64}" for letter in "ab")


def image(*layers: str) -> oci.Image:
    config = json.dumps({"author": "Zoë", "rootfs": {"type": "layers", "diff_ids": layers}}, ensure_ascii=False)
    return oci.Image("localhost/example:1", json.dumps({"config": {"digest": oci.digest(config)}}), config)


def hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_each_layer_is_named_with_all_below_it() -> None:
    pair = hashed(f"{A} {B}")
    twice = hashed(f"{pair} {B}")
    assert image(A, B, B).chain == (oci.Link(A, "", A), oci.Link(pair, A, B), oci.Link(twice, pair, B))
    assert image().chain == ()


def test_the_archive_holds_what_names_the_image_and_no_layer() -> None:
    example, out = image(A, B), io.BytesIO()
    oci.write(example, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        found = {member.name: file.read().decode() for member in archive if (file := archive.extractfile(member))}
    assert json.loads(found.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(found.pop("index.json"))["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": "localhost/example:1"}
    assert (entry["digest"], entry["size"]) == (hashed(example.manifest), len(example.manifest.encode()))
    texts = (example.manifest, example.config)
    assert found == {f"blobs/sha256/{hashed(text).removeprefix('sha256:')}": text for text in texts}


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    known = [{"id": "of-a-container"}, {"id": "lower", "diff-digest": A}, {"id": "upper", "diff-digest": B}]
    (tmp_path / "overlay-layers").mkdir()
    (tmp_path / "overlay-layers/layers.json").write_text(json.dumps(known))
    return Layers(tmp_path)


def test_a_layer_is_found_by_its_digest(layers: Layers) -> None:
    assert layers.files(B) == layers.root / "overlay/upper/diff"


def test_a_layer_that_is_not_there_is_named(layers: Layers) -> None:
    with pytest.raises(ClusterError, match="no layer sha256:0123"):
        layers.files("sha256:0123")


@pytest.mark.parametrize(
    "mount",
    [
        pytest.param({"Source": "/1/fs", "Options": ["rw", "rbind"]}, id="the lowest layer"),
        pytest.param(
            {
                "Source": "overlay",
                "Options": ["index=off", "workdir=/1/work", "upperdir=/1/fs", "lowerdir=/3/fs:/2/fs"],
            },
            id="a layer on others",
        ),
    ],
)
def test_the_files_of_a_snapshot_go_where_its_mount_takes_changes(mount: dict[str, Any]) -> None:
    assert store.upper([mount]) == Path("/1/fs")
