"""A real Kubernetes on this machine: bring it up, use it, take it away. Tests and the command line call this."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster import build, cgroups, control_plane, images, layout, network, node, pki, requirements, store
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.layout import Layout
from e2e.cluster.namespaces import Namespaces
from e2e.cluster.progress import Progress
from e2e.cluster.shell import Failed, run, tail

START_SECONDS = 120.0
"""For any one step of a start; a busy machine needs 20 s for what else takes 3, and who has died is noticed at once."""

MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True)
class Daemon:
    name: str
    runs: bool
    log: Path


class Cluster:
    """One cluster of this machine, by its name. Clusters of different names do not see each other.

    >>> with Cluster("example").up(node=False) as cluster:
    ...     cluster.kubectl("get", "namespaces")
    """

    def __init__(self, name: str = "steelyard", progress: Progress | None = None) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{,31}", name):
            raise ValueError(f"a cluster's name is small letters, digits and hyphens, at most 32: {name!r}")
        self.name = name
        self._progress = progress or Progress()
        self._namespaces = Namespaces(layout.state(name))

    # Use

    @property
    def kubeconfig(self) -> Path:
        """Credentials of an administrator, for any client on this host."""
        return self._layout.kubeconfig("admin")

    @property
    def subnets(self) -> network.Subnets:
        return self._layout.subnets

    @property
    def running(self) -> bool:
        return self._namespaces.holder is not None

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, timeout: float = 60) -> str:
        """Standard output of kubectl, as administrator."""
        return run(kubectl(), f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin, timeout=timeout)

    def load(self, *tags: str) -> None:
        """Makes images of buildah's store known to the node."""
        for tag in tags:
            with self._progress.step(f"load {tag}"):
                store.Store(self._layout.containerd).load(tag)

    def install_prometheus(self) -> None:
        """Prometheus at prometheus.monitoring:9090, ready; it scrapes every pod with the label steelyard.dev/job."""
        tag = images.prometheus(self._progress)
        self.load(tag)
        manifest = (MANIFESTS / "prometheus.yaml").read_text().replace("localhost/steelyard/prometheus", tag)
        with self._progress.step("Prometheus"):
            self.kubectl("apply", "--filename=-", stdin=manifest)
            self.kubectl("rollout", "status", "--namespace=monitoring", "deployment/prometheus", timeout=120)

    def daemons(self) -> list[Daemon]:
        found = self._namespaces.daemons() if self.running else {}
        return [Daemon(name, self._namespaces.runs(pid), self._namespaces.log(name)) for name, pid in found.items()]

    def logs(self) -> dict[str, Path]:
        """Log file by daemon; they stay after a start that failed."""
        return {path.stem: path for path in self._layout.state.glob("log/*.log")}

    # Life

    def up(self, *, node: bool = True, prometheus: bool = False) -> Self:
        """Returns when the cluster serves. What an earlier, killed run of this name left is removed first.

        Without ``node`` there are etcd, API server, controller manager and scheduler: objects live, pods stay Pending.
        """
        requirements.check(self._progress, node=node)
        self.down()
        programs = build.ensure(build.KUBERNETES, self._progress)
        pause = images.pause(self._progress) if node else ""
        if prometheus:
            images.prometheus(self._progress)
        with self._progress.step(f"cluster {self.name}"):
            try:
                self._start(programs, pause)
            except BaseException as failure:
                self._stop()  # logs stay until the next start
                if isinstance(failure, Failed):
                    raise ClusterError(Exit.START_FAILED, str(failure)) from failure
                raise
        if prometheus:
            self.install_prometheus()
        return self

    def down(self) -> None:
        """Removes the cluster and all it held, volumes included; images stay for the next one."""
        self._stop()
        if layout.state(self.name).exists():
            shutil.rmtree(layout.state(self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _stop(self) -> None:
        known = layout.load(self.name)
        self._namespaces.destroy()
        if known is not None:
            network.disconnect(known.subnets)
        cgroups.remove(self.name)

    def _start(self, programs: Path, pause: str) -> None:
        state = layout.state(self.name)
        for directory in (state, state / "log", state / "daemons"):
            directory.mkdir(parents=True)
        with network.claimed(layout.LOCKS, node=bool(pause)) as (subnets, lock):
            plan = Layout(self.name, subnets, programs)
            plan.save()
            network.connect(subnets, self._namespaces.create(lock))
        self._groups = cgroups.create(self.name)
        pki.create(plan.pki, subnets)
        with ThreadPoolExecutor() as side:
            images_ready = side.submit(self._prepare_node, plan, pause) if pause else None
            self._start_control_plane(plan)
            if images_ready:
                images_ready.result()
                self._start_node(plan)

    def _start_control_plane(self, plan: Layout) -> None:
        self._daemon("etcd", control_plane.etcd(plan))
        self._daemon("kube-apiserver", control_plane.apiserver(plan))
        self._until("the API server is ready", lambda: self._says("ok", "get", "--raw=/readyz"))
        self._daemon("kube-controller-manager", control_plane.controller_manager(plan))
        self._daemon("kube-scheduler", control_plane.scheduler(plan))
        self._until("namespaces have accounts", lambda: self._says("default", "get", "serviceaccount", "default"))

    def _prepare_node(self, plan: Layout, pause: str) -> None:
        """containerd, empty but for images."""
        node.configure(plan, pause)
        plan.store.mkdir(parents=True, exist_ok=True)
        known = store.Store(plan.containerd)
        self._daemon("image-store", node.containerd(plan, images_only=True))
        self._until("containerd answers", known.answers)
        known.clean()
        self._namespaces.stop("image-store")
        store.forget_sandboxes(plan.store)
        self._daemon("containerd", node.containerd(plan))
        self._until("containerd answers", known.answers)
        known.load(pause)

    def _start_node(self, plan: Layout) -> None:
        self.kubectl("apply", f"--filename={MANIFESTS / 'system.yaml'}")
        self.kubectl("apply", "--filename=-", stdin=json.dumps(node.dns_service(plan)))
        self._daemon("kubelet", node.kubelet(plan))
        self._daemon("device-plugin", node.device_plugin(plan))
        self._daemon("kube-proxy", node.proxy(plan))
        self._daemon("dns", node.dns(plan))
        self._daemon("provisioner", node.provisioner(plan))
        self._until("the node is ready", self._node_ready)

    # Parts

    @property
    def _layout(self) -> Layout:
        known = layout.load(self.name)
        if known is None:
            raise ClusterError(Exit.NO_SUCH_CLUSTER, f"there is no cluster {self.name}: start it with `up`")
        return known

    def _daemon(self, name: str, argv: list[str]) -> None:
        self._namespaces.start(name, argv, self._groups)

    def _says(self, word: str, *arguments: str) -> bool:
        try:
            return word in self.kubectl(*arguments)
        except Failed:
            return False

    def _node_ready(self) -> bool:
        try:
            status = json.loads(self.kubectl("get", "node", pki.NODE, "--output=json"))["status"]
        except Failed:
            return False
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])
        return ready and all(status["allocatable"].get(name) == str(n) for name, n in node.DEVICES.items())

    def _until(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits for a condition, but not for daemons that have died."""
        end = time.monotonic() + START_SECONDS
        while not condition():
            late = time.monotonic() > end
            dead = [daemon for daemon in self.daemons() if not daemon.runs]
            if late or dead:
                culprits = dead or self.daemons()
                reason = f"not within {START_SECONDS:g} s" if late else f"{dead[0].name} has ended"
                logs = "\n".join(f"--- {one.log}\n{tail(one.log.read_text())}" for one in culprits)
                raise ClusterError(Exit.START_FAILED, f"waited until {what}: {reason}\n{logs}")
            time.sleep(0.1)


def kubectl() -> str:
    """The kubectl of this Python environment, else the one on the PATH."""
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if os.access(beside, os.X_OK) else "kubectl"
