"""What every part of a cluster knows about it: its name, where its files lie, its addresses."""

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.holder import record
from e2e.cluster.network import Subnets

STATE = Path("/var/lib/steelyard")  # short: the path of a unix socket ends at 108 bytes
LOCKS = STATE / ".locks"
STORES = STATE / ".stores"


@dataclass(frozen=True)
class Layout:
    name: str
    subnets: Subnets
    programs: Path
    """The directory of the cluster's own programs."""

    @property
    def state(self) -> Path:
        return state(self.name)

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def store(self) -> Path:
        """Images of the node. Survives the cluster, for the next one with the same addresses."""
        return STORES / str(self.subnets.index)

    @property
    def containerd(self) -> Path:
        return self.state / "containerd.sock"

    def kubeconfig(self, user: str) -> Path:
        return self.pki / f"{user}.kubeconfig"

    def daemon(self, name: str) -> tuple[Path, str]:
        """How to run one of the daemons that share a program."""
        return (self.programs / "kubernetes", name)

    def save(self) -> None:
        saved = {"index": self.subnets.index, "programs": str(self.programs)}
        record(self.state / "cluster.json", json.dumps(saved))


def state(name: str) -> Path:
    return STATE / name


def load(name: str) -> Layout | None:
    """The layout of a cluster that was started and not removed."""
    try:
        saved = json.loads((state(name) / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    return Layout(name, Subnets(saved["index"]), Path(saved["programs"]))
