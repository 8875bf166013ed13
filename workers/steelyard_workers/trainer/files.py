"""Folders that appear whole or not at all, and survive a power cut once they are named by a pointer."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard_workers.messages import PolicyVersion

PARTIAL = ".partial"


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to fill; when the block ends well, its files are on disk and it takes the name `target`."""
    partial = target.with_name(target.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    for path in [*partial.iterdir(), partial]:
        sync(path)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's list of names, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def versions(folder: Path) -> list[tuple[PolicyVersion, Path]]:
    """The complete `epoch.step` folders inside a folder, oldest first."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            found.append((PolicyVersion.parse(path.name), path))
        except ValueError:
            continue
    return sorted(found)
