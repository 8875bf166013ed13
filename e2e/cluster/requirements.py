"""What this machine must have to carry a cluster. Each missing thing is one sentence and one exit code."""

import os
import re
import shutil
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.layout import STATE
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed, run

GO = (1, 26)
FREE_GIB = {"control plane": 3, "node": 20}
# program that must be there -> Debian package that brings it
IMAGE_PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}
CONTROL_PLANE_PACKAGES = {"ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl"}
NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    **IMAGE_PACKAGES,
}
APT_PATIENCE_SECONDS = 300
BROWSER = "chromium-headless-shell"
KERNEL_MODULES = ("overlay", "bridge", "br_netfilter", "veth", "nf_conntrack", "xt_comment", "xt_conntrack")


def check(progress: Progress, *, node: bool) -> None:
    """Raises ClusterError for the first thing that is missing and cannot be installed."""
    root(os.geteuid())
    _go(_go_version())
    _disk(shutil.disk_usage(_existing(STATE)).free, FREE_GIB["node" if node else "control plane"])
    _packages(progress, CONTROL_PLANE_PACKAGES | (NODE_PACKAGES if node else {}))
    if node:
        if shutil.which("modprobe"):
            run("sh", "-c", f"modprobe --all --quiet {' '.join(KERNEL_MODULES)} || true")
        _kernel(Path("/proc/filesystems").read_text(), Path("/sys/fs/cgroup"))


def check_images(progress: Progress) -> None:
    """What making an image needs, without a cluster."""
    _packages(progress, IMAGE_PACKAGES)


def check_compiler(progress: Progress) -> None:
    """What compiles the stand-ins for CUDA's libraries; g++ brings gcc, the linker and the C library's headers."""
    _packages(progress, {"g++": "g++"})


def check_browser(progress: Progress) -> str:
    """What takes screenshots; the path of the browser."""
    _packages(progress, {BROWSER: BROWSER})
    found = shutil.which(BROWSER)
    assert found is not None
    return found


def root(user: int) -> None:
    if user != 0:
        raise ClusterError(
            Exit.NOT_ROOT,
            "a cluster needs root (namespaces, mounts, control groups): run the same command with sudo",
        )


def _go_version() -> str | None:
    return run("go", "env", "GOVERSION").strip() if shutil.which("go") else None


def _go(version: str | None) -> None:
    wanted = ".".join(map(str, GO))
    if version is None:
        raise ClusterError(Exit.NO_GO, f"Go is not on the PATH: install Go {wanted} or newer (https://go.dev/dl)")
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < GO:
        raise ClusterError(Exit.NO_GO, f"Go {wanted} or newer is needed, found {version} at {shutil.which('go')}")


def _disk(free_bytes: int, needed_gib: int) -> None:
    free_gib = free_bytes / 2**30
    if free_gib < needed_gib:
        raise ClusterError(
            Exit.NO_DISK, f"{needed_gib} GiB of disk are needed below {STATE}, {free_gib:.1f} GiB are free"
        )


def _kernel(filesystems: str, cgroups: Path) -> None:
    if "overlay" not in filesystems.split():
        raise ClusterError(Exit.NO_KERNEL_FEATURE, "this kernel has no overlay file system (CONFIG_OVERLAY_FS)")
    if not (cgroups / "cgroup.controllers").exists() and not (cgroups / "cpu").exists():
        raise ClusterError(Exit.NO_KERNEL_FEATURE, f"no control groups are mounted on {cgroups}")


def _packages(progress: Progress, wanted: dict[str, str]) -> None:
    """Installs the Debian packages whose program is not there."""
    if not (missing := _missing(wanted)):
        return
    by_hand = f"install them yourself: {' '.join(missing)}"
    if not shutil.which("apt-get"):
        raise ClusterError(Exit.NO_PACKAGES, f"programs are missing and this is not Debian; {by_hand}")
    with cache.locked("packages"):  # test processes start side by side
        if not (missing := _missing(wanted)):
            return
        with progress.step(f"Debian packages: {' '.join(missing)}"):
            try:
                _install(missing)
            except Failed as failure:
                raise ClusterError(
                    Exit.NO_PACKAGES, f"cannot install Debian packages; {by_hand}\n{failure}"
                ) from failure


def _missing(wanted: dict[str, str]) -> list[str]:
    return sorted(package for program, package in wanted.items() if not shutil.which(program))


def _install(packages: list[str]) -> None:
    """Asks nobody anything, and waits for whoever installs just now, as a new machine's own upgrades do."""
    wait = f"--option=DPkg::Lock::Timeout={APT_PATIENCE_SECONDS}"
    install = ("apt-get", "install", "--yes", "--no-install-recommends", wait, *packages)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        run(*install, env=quiet)
    except Failed:  # the package lists may be old or not there yet
        run("apt-get", "update", wait)
        run(*install, env=quiet)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
