"""Builds the images of the Dockerfile with buildah; whatever a key names is built once and then found in the store.

Every stage is an image of its own whose tag is its key, handed to the later ones as a build context. (buildah could
cache layers itself, but digests gigabytes to learn that nothing changed, and overlooks a change behind a bind mount.)
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.cluster import cache, images, requirements
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed, run
from e2e.images import ROOT, dockerfile, settings, wheelhouse
from e2e.images.dockerfile import Stage

TARGETS = ("operator", "worker", "sampler", "trainer", "nats")
_STAGES = f"{images.REPOSITORY}-stages"
_KEEP = 2
"""Images kept under each name: what this checkout uses, and what a cluster that still runs was started from."""


def build(targets: Iterable[str], progress: Progress) -> dict[str, str]:
    """The image of each target, built where the store does not have it."""
    if os.geteuid() != 0:
        raise ClusterError(Exit.NOT_ROOT, "images are built as root only: run the same command with sudo")
    requirements.check_images(progress)
    wheels = wheelhouse.ensure(progress)
    arguments = {"BASE_IMAGE": images.base(progress), "ACCELERATOR": "cpu", "CPU_WHEELS": wheels.name}
    stages = dockerfile.parse((ROOT / "Dockerfile").read_text(), arguments)
    keys = dockerfile.keys(stages, _contents)
    tags = {name: f"{images.REPOSITORY if name in TARGETS else _STAGES}/{name}:{key}" for name, key in keys.items()}
    targets = list(targets)
    if not all(images.exists(tags[target]) for target in targets):
        with cache.locked(cache.HEAVY), tempfile.TemporaryDirectory() as folder:
            options = [*settings.build_options(Path(folder)), f"--build-context=wheels={wheels.parent}"]
            for target in targets:
                for stage in dockerfile.order(stages, target):
                    _build(stage, tags, options, progress)
    return {target: tags[target] for target in targets}


def _contents(path: str) -> str:
    """A digest of a file or folder of the build context, as .dockerignore lets it through."""
    root = ROOT / path
    files = [root] if root.is_file() else sorted(file for file in root.rglob("*") if file.is_file())
    digests = (
        (str(file), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files if "__pycache__" not in file.parts
    )
    return cache.key(*(text for file, digest in digests for text in (os.path.relpath(file, ROOT), digest)))


def _build(stage: Stage, tags: Mapping[str, str], options: list[str], progress: Progress) -> None:
    tag = tags[stage.name]
    if images.exists(tag):
        return
    if stage.is_alias:
        run("buildah", "tag", tags[stage.needs[0]], tag)
        return
    contexts = [f"--build-context={need}=container-image://{tags[need]}" for need in stage.needs]
    command = ["buildah", "build", "--quiet", "--isolation=chroot", "--network=host", *options, *contexts]
    try:
        with progress.step(f"image {stage.name}"), tempfile.NamedTemporaryFile("w", suffix=".Dockerfile") as file:
            file.write(stage.text)
            file.flush()
            run(*command, f"--file={file.name}", f"--tag={tag}", ROOT)
    except Failed as failure:
        raise ClusterError(Exit.IMAGE_FAILED, f"cannot build the image {stage.name}: {failure}") from failure
    for old in _older(tag):
        run("buildah", "rmi", "--force", old)


def _older(tag: str) -> list[str]:
    """Images of the same name beyond those to keep, this one apart."""
    name = tag.rsplit(":", 1)[0]
    listed = json.loads(run("buildah", "images", "--json", "--filter", f"reference={name}"))
    newest_first = sorted(listed, key=lambda image: str(image["createdatraw"]), reverse=True)
    found = [
        label for image in newest_first for label in image["names"] if label.startswith(f"{name}:") and label != tag
    ]
    return found[_KEEP - 1 :]
