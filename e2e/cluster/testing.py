"""For tests: what a cluster leaves on the host."""

import json
from pathlib import Path

from e2e.cluster import cgroups, layout
from e2e.cluster.network import Subnets
from e2e.cluster.shell import run


def traces(name: str, subnets: Subnets) -> dict[str, list[str]]:
    """Everything on this host that belongs to the cluster, by kind. After ``down`` every list is empty."""
    state = str(layout.state(name))
    networks = (str(subnets.link), str(subnets.pods), str(subnets.services))
    return {
        "processes": [process for process in processes() if state in process or cgroups.name(name) in process],
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if state in line],
        "interfaces": [link for link in _links() if link == subnets.interface],
        "routes": [line for line in run("ip", "route").splitlines() if line.startswith(networks)],
        "cgroups": [str(path) for path in cgroups.ROOT.glob(f"**/{cgroups.name(name)}")],
        "files": [state] if Path(state).exists() else [],
    }


def firewall() -> str:
    """The host's packet filter rules, without their counters."""
    lines = run("iptables-save").splitlines()
    return "\n".join(line.split(" [")[0] for line in lines if not line.startswith("#"))


def _links() -> list[str]:
    return [link["ifname"] for link in json.loads(run("ip", "-json", "link"))]


def processes() -> list[str]:
    """Number, command line and control groups of every process of the host."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append(f"{directory.name} {command} {(directory / 'cgroup').read_text()}")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
