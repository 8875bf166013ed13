"""Where costly things are kept between runs. Whatever is found under its key is whole: it is renamed into place."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

HEAVY = "heavy-build"
"""The lock of what takes minutes and all cores: two at once would not fit a small machine."""


def directory() -> Path:
    """``$XDG_CACHE_HOME/steelyard``, by default ``~/.cache/steelyard``."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steelyard"
    path.mkdir(parents=True, exist_ok=True)
    return path


def key(*parts: str) -> str:
    """A short name for this content; the borders between the parts count."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(f"{len(part)}:{part}".encode())
    return whole.hexdigest()[:12]


def tree_key(root: Path, patterns: Iterable[str], *parts: str) -> str:
    """The key of the files below ``root`` that match, their names included, and of what else decides the result."""
    files = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return key(*parts, *(text for path in files for text in (str(path.relative_to(root)), path.read_text())))


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Only one process of this machine is inside at a time."""
    with (directory() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
