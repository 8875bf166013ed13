"""Builds of Go modules, with a stand-in for the compiler on the PATH."""

from pathlib import Path

import pytest

from e2e.cluster import build, images
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress


def compiler(folder: Path, script: str) -> None:
    go = folder / "go"
    go.write_text(f'#!/bin/sh\n[ "$1" = env ] && echo go1.26.0 && exit\n{script}\n')
    go.chmod(0o755)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build.Module:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "go.mod").write_text("module example\n")
    return build.Module("example", source, ("example",), "no time")


def test_a_build_that_had_to_be_made_leaves_its_programs_and_no_open_pipe(tmp_path: Path, module: build.Module) -> None:
    compiler(tmp_path, 'echo example >&2; while [ "$1" != -o ]; do shift; done; echo program > "$2/example"')
    assert (build.ensure(module, Progress()) / "example").read_text() == "program\n"


def test_a_build_that_fails_says_what_the_compiler_said(tmp_path: Path, module: build.Module) -> None:
    compiler(tmp_path, "echo undefined: frob >&2; exit 1")
    with pytest.raises(ClusterError, match=r"go build of example failed in .*\nundefined: frob") as failed:
        build.ensure(module, Progress())
    assert failed.value.code is Exit.BUILD_FAILED


def test_a_base_image_on_a_new_machine_asks_for_the_programs_that_make_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="install them yourself: buildah debootstrap") as missing:
        images.base(Progress())
    assert missing.value.code is Exit.NO_PACKAGES
