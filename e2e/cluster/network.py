"""The addresses of a cluster and the one cable that leads from the host into it.

A cluster lives in a network namespace. Its host end is an interface ``steelyard<index>`` with routes for the pods and
the services behind it, so the host reaches everything by its own address; all of it vanishes with the namespace.
"""

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.shell import Failed, run

MOST_CLUSTERS = 16


@dataclass(frozen=True)
class Subnets:
    """Where the cluster of this index lives; no two indices overlap."""

    index: int

    @property
    def link(self) -> IPv4Network:
        return IPv4Network(f"10.213.{self.index}.0/24")

    @property
    def pods(self) -> IPv4Network:
        return IPv4Network(f"10.214.{self.index}.0/24")

    @property
    def services(self) -> IPv4Network:
        return IPv4Network(f"10.215.{self.index * 16}.0/20")

    @property
    def host(self) -> IPv4Address:
        return self.link[1]

    @property
    def node(self) -> IPv4Address:
        """The only machine of the cluster: control plane, node and DNS listen here."""
        return self.link[2]

    @property
    def api_service(self) -> IPv4Address:
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        return self.services[10]

    @property
    def interface(self) -> str:
        return f"steelyard{self.index}"

    def overlaps(self, network: IPv4Network) -> bool:
        return any(network.overlaps(own) for own in (self.link, self.pods, self.services))


def free_subnets(routes: Collection[IPv4Network]) -> list[Subnets]:
    """What a new cluster may use, best first: the host sends nothing there, nor to another cluster."""
    every = (Subnets(index) for index in range(MOST_CLUSTERS))
    return [subnets for subnets in every if not any(subnets.overlaps(route) for route in routes)]


@contextmanager
def claimed(locks: Path, *, node: bool) -> Iterator[tuple[Subnets, int]]:
    """Free subnets and the descriptor of their lock: whoever inherits it holds the claim as long as it lives.

    Clusters with a node begin with the lowest index, whose store most likely has their images; the others stay away.
    """
    locks.mkdir(parents=True, exist_ok=True)
    for subnets in sorted(free_subnets(host_routes()), key=lambda free: free.index, reverse=not node):
        descriptor = os.open(locks / f"{subnets.index}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        try:
            yield subnets, descriptor
        finally:
            os.close(descriptor)
        return
    raise ClusterError(
        Exit.NO_ADDRESSES,
        f"no free address range: {MOST_CLUSTERS} clusters, or routes of this host, take 10.213-10.215.0.0/16",
    )


def host_routes() -> list[IPv4Network]:
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all"))
    return [IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]


def connect(subnets: Subnets, holder: int) -> None:
    """Lay the cable between the host and the network namespace of the process ``holder``."""
    inside, outside = ("nsenter", "--target", str(holder), "--net", "ip"), ("ip",)
    length, name = subnets.link.prefixlen, subnets.interface
    for command in (
        (*outside, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder)),
        (*inside, "link", "set", "lo", "up"),
        (*inside, "address", "add", f"{subnets.node}/{length}", "dev", "eth0"),
        (*inside, "link", "set", "eth0", "up"),
        (*outside, "address", "add", f"{subnets.host}/{length}", "dev", name),
        (*outside, "link", "set", name, "up"),
        (*outside, "route", "add", str(subnets.pods), "via", str(subnets.node)),
        (*outside, "route", "add", str(subnets.services), "via", str(subnets.node)),
        (*inside[:-1], "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
    ):
        run(*command)


def disconnect(subnets: Subnets) -> None:
    """Pull the cable at once: the kernel takes namespaces apart in its own time."""
    try:
        run("ip", "link", "delete", subnets.interface)
    except Failed as failure:
        if "Cannot find device" not in str(failure):
            raise
