"""Starts, enters and kills the namespaces a cluster lives in."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import holder
from e2e.cluster.errors import ClusterError, Exit
from e2e.cluster.shell import Failed, run

# The shell in the namespaces joins the control groups, starts the daemon in a session of its own and is gone.
DAEMON = """
for group in $CONTROL_GROUPS; do echo 0 >"$group/cgroup.procs"; done
unset CONTROL_GROUPS
setsid "$@" >>"$LOG" 2>&1 </dev/null &
echo $!
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Namespaces:
    """The mount, PID and network namespaces of one cluster; ``state`` is its directory."""

    def __init__(self, state: Path) -> None:
        self._state = state

    @property
    def holder(self) -> int | None:
        """The process id of the holder, if it lives; a number that another process has got since is not it."""
        try:
            pid = int((self._state / "holder.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid if str(self._state).encode() in command else None

    def create(self, lock: int) -> int:
        """Returns the holder's process id. It keeps the open descriptor ``lock``."""
        with (self._state / "holder.log").open("w") as log:
            made = subprocess.run(
                [sys.executable, "-IS", holder.__file__, str(self._state)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                check=False,
            )
        pid = self.holder
        if made.returncode or pid is None:
            said = (self._state / "holder.log").read_text()
            raise ClusterError(Exit.NO_KERNEL_FEATURE, f"cannot make mount, PID and network namespaces:\n{said}")
        return pid

    def destroy(self) -> None:
        """Returns when the holder, and with it every process of the cluster, is gone."""
        pid = self.holder
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        while self.holder is not None:
            time.sleep(0.02)

    def start(self, name: str, argv: Sequence[str | Path], groups: Sequence[Path]) -> None:
        """A daemon; its output goes to log/NAME.log and its process id, as seen inside, to daemons/NAME."""
        environment = {
            "PATH": PATH,
            "HOME": "/root",
            "LOG": str(self.log(name)),
            "CONTROL_GROUPS": " ".join(str(group) for group in groups),
        }
        variables = [f"{key}={value}" for key, value in environment.items()]
        pid = self.run("env", "-i", *variables, "sh", "-c", DAEMON, "sh", *argv)
        holder.record(self._state / "daemons" / name, pid)

    def stop(self, name: str) -> None:
        """Ends a daemon, which from now on is none that should run, and waits for its end."""
        record = self._state / "daemons" / name
        pid = record.read_text().strip()
        record.unlink()
        self.run("sh", "-c", f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.02; done")

    def daemons(self) -> dict[str, int]:
        """The process id, as seen inside, of every daemon that should run."""
        return {path.name: int(path.read_text()) for path in sorted(self._state.glob("daemons/[!.]*"))}

    def runs(self, pid: int) -> bool:
        try:
            self.run("kill", "-0", str(pid))
        except Failed:
            return False
        return True

    def log(self, name: str) -> Path:
        return self._state / "log" / f"{name}.log"

    def run(self, *argv: str | Path, timeout: float = 60) -> str:
        """Output of a program that runs inside."""
        pid = self.holder
        if pid is None:
            raise ClusterError(Exit.NO_SUCH_CLUSTER, f"the cluster of {self._state} does not run")
        return run("nsenter", f"--target={pid}", "--mount", "--net", "--pid", "--", *argv, timeout=timeout)
