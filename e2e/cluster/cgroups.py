"""Control groups of a cluster: it goes before the rest of the machine, daemons before pods, pods never on every core.

A control plane that starves on a small machine loses node leases, and the cluster then evicts the very pods that
starved it; and what is measured in pods shall not depend on what else runs. Works with cgroup v2 and with v1.
"""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CORES_KEPT_FROM_PODS = 0.5
PERIOD_MICROSECONDS = 100_000
CONTROLLERS = ("cpu", "cpuset", "hugetlb", "io", "memory", "pids")
DAEMONS, PODS = "daemons", "pods"


def name(cluster: str) -> str:
    return f"steelyard-{cluster}"


def pods_quota(cores: int) -> int:
    """Microseconds of CPU time that all pods together may take in a period."""
    return round((cores - CORES_KEPT_FROM_PODS) * PERIOD_MICROSECONDS)


def unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The roots of the trees that kubelet and runc use: one with cgroup v2, one a controller with v1."""
    if unified():
        return [ROOT]
    return sorted({path.resolve() for path in ROOT.iterdir() if (path / "tasks").exists()})


def create(cluster: str) -> list[Path]:
    """Groups for daemons and for pods; returns the first one's directories, for processes to join."""
    joined = []
    for root in hierarchies():
        top = root / name(cluster)
        for group in (top, top / DAEMONS, top / PODS):
            group.mkdir()
            _inherit(group)
        joined.append(top / DAEMONS)
    _share(cluster)
    return joined


def _inherit(group: Path) -> None:
    """What a new group does not get from its parent by itself: controllers (v2), CPUs and memory nodes (v1)."""
    if unified():
        offered = (group.parent / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in CONTROLLERS if controller in offered)
        (group.parent / "cgroup.subtree_control").write_text(wanted)
    for file in ("cpuset.cpus", "cpuset.mems"):
        if not unified() and (group / file).exists():
            (group / file).write_text((group.parent / file).read_text())


def _share(cluster: str) -> None:
    quota = pods_quota(os.cpu_count() or 1)
    if unified():
        for group in (ROOT / name(cluster), ROOT / name(cluster) / DAEMONS):
            (group / "cpu.weight").write_text("800")
        (ROOT / name(cluster) / PODS / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
    else:
        cpu = (ROOT / "cpu").resolve() / name(cluster)
        for group in (cpu, cpu / DAEMONS):
            (group / "cpu.shares").write_text("8192")
        (cpu / PODS / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (cpu / PODS / "cpu.cfs_quota_us").write_text(str(quota))


def remove(cluster: str) -> None:
    """Takes the empty groups away. Dead processes leave their group a moment after their parent knows."""
    patience = time.monotonic() + 10
    for group in _groups(cluster):
        while group.exists():
            try:
                group.rmdir()
            except OSError:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.02)


def _groups(cluster: str) -> list[Path]:
    """Innermost first."""
    tops = [root / name(cluster) for root in (ROOT, *ROOT.iterdir()) if (root / name(cluster)).is_dir()]
    inside = [path for top in tops for path in (top, *top.rglob("*/"))]
    return sorted(inside, key=lambda path: len(path.parts), reverse=True)
