"""Images made here, in buildah's store: no registry is asked. Each tag is the key of what decides its content."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import build, cache, requirements
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed, run, succeeds

REPOSITORY = "localhost/steelyard"
SUITE = "bookworm"
# python3-venv makes virtual environments work, libnuma1 is what vLLM's CPU kernels link, binutils strips libraries.
PACKAGES = ("binutils", "ca-certificates", "libnuma1", "procps", "python3", "python3-venv")


def base(progress: Progress) -> str:
    """The tag of a Debian root with Python, for Dockerfiles that take BASE_IMAGE; made when the store lacks it."""
    requirements.check_images(progress)
    tag = f"{REPOSITORY}/base:{cache.key('1', SUITE, *PACKAGES)}"
    if not exists(tag):
        with cache.locked(cache.HEAVY):
            if not exists(tag):
                _debootstrap(tag, progress)
    return tag


def pause(progress: Progress) -> str:
    return _program(progress, build.ensure(build.KUBERNETES, progress) / "pause", user="65535:65535")


def prometheus(progress: Progress) -> str:
    return _program(progress, build.ensure(build.PROMETHEUS, progress) / "prometheus", user="65534:65534")


def exists(tag: str) -> bool:
    return succeeds("buildah", "inspect", "--type", "image", tag)


def identity(tag: str) -> str:
    """The image's id in buildah's store; it changes with the content, whatever the tag."""
    try:
        return run("buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", tag).strip()
    except Failed as unknown:
        raise ClusterError(Exit.IMAGE_FAILED, f"buildah has no image {tag}: build it first") from unknown


def _debootstrap(tag: str, progress: Progress) -> None:
    with progress.step("base image (debootstrap, about a minute)"), _scratch(tag) as root:
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root)
        for packed in (root / "var/cache/apt/archives").glob("*.deb"):
            packed.unlink()
        shutil.rmtree(root / "var/lib/apt/lists")


def _program(progress: Progress, binary: Path, user: str) -> str:
    """An image that holds one static program and nothing else."""
    with binary.open("rb") as file:
        tag = f"{REPOSITORY}/{binary.name}:{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}"
    with cache.locked("program-images"):
        if not exists(tag):
            with progress.step(f"{binary.name} image"), _scratch(tag, user, f"/{binary.name}") as root:
                shutil.copy(binary, root / binary.name)
    return tag


@contextmanager
def _scratch(tag: str, user: str = "", *entrypoint: str) -> Iterator[Path]:
    """The mounted root of an empty container, committed as ``tag`` when the block ends well."""
    try:
        container = run("buildah", "from", "scratch").strip()
        try:
            yield Path(run("buildah", "mount", container).strip())
            run("buildah", "umount", container)
            if entrypoint:
                run("buildah", "config", "--user", user, "--entrypoint", json.dumps(entrypoint), container)
            run("buildah", "commit", "--quiet", container, tag)
        finally:
            run("buildah", "rm", container)
    except Failed as failure:
        raise ClusterError(Exit.IMAGE_FAILED, f"cannot make the image {tag}: {failure}") from failure
