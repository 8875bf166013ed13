"""Whoever lacks something is told what, how to get it, and by an exit code that means only this."""

import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from e2e.cluster import requirements
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.progress import Progress
from e2e.images import PYTHON

ROOT = Path(__file__).parents[3]
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


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a script in place of apt-get."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def stand_in(script: str) -> None:
        (tmp_path / "apt-get").write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        (tmp_path / "apt-get").chmod(0o755)

    return stand_in


def test_when_apt_fails_its_last_words_are_passed_on(apt: Callable[[str], None]) -> None:
    apt("echo 'E: Unable to locate package runc' >&2; exit 100")
    with pytest.raises(ClusterError, match="Unable to locate package runc") as problem:
        requirements._packages(QUIET, {"no-such-program": "runc"})
    assert problem.value.code == Exit.NO_PACKAGES


def test_packages_that_no_list_knows_yet_are_found_in_new_lists(apt: Callable[[str], None], tmp_path: Path) -> None:
    apt('[ "$1" = update ] && touch lists; [ -e lists ] && echo "$DEBIAN_FRONTEND $*" >>done')
    requirements._packages(QUIET, {"no-such-program": "runc"})
    *_, install = (tmp_path / "done").read_text().splitlines()
    assert install.startswith("noninteractive install ")
    assert install.endswith(" runc")


def test_another_installation_is_waited_for(apt: Callable[[str], None], tmp_path: Path) -> None:
    """On a new machine unattended upgrades hold dpkg's lock for minutes."""
    apt('echo "$*" >done')
    requirements._packages(QUIET, {"no-such-program": "runc"})
    assert " --option=DPkg::Lock::Timeout=300 " in (tmp_path / "done").read_text()


def said_by_make(variable: str) -> str:
    show = ("make", "--silent", f"--eval=show: ; @echo $${variable}", "show")
    return subprocess.run(
        show, cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_make_finds_what_sudo_and_su_leave_out_of_the_path() -> None:
    """debootstrap and iptables lie in /usr/sbin; Go in /usr/local/go/bin, when installed as its page says."""
    assert said_by_make("PATH").split(":")[2:] == ["/usr/sbin", "/sbin", "/usr/local/go/bin"]


def test_the_development_environment_has_the_python_that_the_cpu_wheels_are_made_for() -> None:
    """Debian 13 brings a newer one."""
    assert said_by_make("UV_PYTHON") == PYTHON
