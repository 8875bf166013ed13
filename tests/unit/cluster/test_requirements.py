"""Whoever lacks something is told what, how to get it, and by an exit code that means only this."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from e2e.cluster import requirements
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress

QUIET = Progress(Console(file=StringIO()))


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        pytest.param(lambda: requirements.root(1000), Exit.NOT_ROOT, "sudo", id="not root"),
        pytest.param(lambda: requirements._go(None), Exit.NO_GO, "Go is not on the PATH", id="no Go"),
        pytest.param(lambda: requirements._go("go1.25.9"), Exit.NO_GO, "1.26 or newer", id="an old Go"),
        pytest.param(lambda: requirements._disk(5 * 2**30, 20), Exit.NO_DISK, "5.0 GiB are free", id="a full disk"),
        pytest.param(
            lambda: requirements._kernel("nodev\tproc\n\text4\n", Path("/sys/fs/cgroup")),
            Exit.NO_KERNEL_FEATURE,
            "CONFIG_OVERLAY_FS",
            id="a kernel without overlay",
        ),
        pytest.param(
            lambda: requirements._kernel("nodev\toverlay\n", Path("/nonexistent")),
            Exit.NO_KERNEL_FEATURE,
            "control groups",
            id="no control groups",
        ),
    ],
)
def test_a_missing_requirement_has_its_own_code_and_sentence(check: Callable[[], None], code: Exit, words: str) -> None:
    with pytest.raises(ClusterError, match=words) as problem:
        check()
    assert problem.value.code == code


@pytest.mark.parametrize("version", ["go1.26", "go1.26.8", "go1.30.1", "go2.0", "devel go1.27-a1b2c3"])
def test_newer_compilers_are_welcome(version: str) -> None:
    requirements._go(version)


def test_no_two_problems_share_an_exit_code() -> None:
    assert len(Exit) == len({int(code) for code in Exit})
    assert 0 not in set(Exit)


def test_packages_that_are_there_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "run", lambda *_, **__: pytest.fail("nothing should be run"))
    requirements._packages(QUIET, {"sh": "dash"})


def test_elsewhere_than_on_debian_the_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"not Debian; install them yourself: buildah runc") as problem:
        requirements._packages(QUIET, {"runc": "runc", "buildah": "buildah"})
    assert problem.value.code == Exit.NO_PACKAGES


def test_when_apt_fails_its_last_words_are_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'E: Unable to locate package runc' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ClusterError, match="Unable to locate package runc") as problem:
        requirements._packages(QUIET, {"no-such-program": "runc"})
    assert problem.value.code == Exit.NO_PACKAGES
