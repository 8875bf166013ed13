"""The first process of a cluster's namespaces: while it lives they live, and when it is killed everything in them dies.

Run as a script, ``holder.py STATE``: returns once the namespaces are ready, leaving the process id of the holder in
STATE/holder.pid. A lock that is passed down on an open descriptor is held until the holder's end.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000

# What the daemons keep at fixed paths, and where it really lies: two clusters must not meet there.
OWN = {
    "kubelet": "/var/lib/kubelet",
    "cni": "/var/lib/cni",
    "pod-logs": "/var/log/pods",
    "links": "/var/log/containers",
}


def main(state: Path) -> int:
    os.setsid()
    os.chdir("/")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    ready, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(ready)
        hold(state, tell)
    os.close(tell)
    record(state / "holder.pid", str(holder))
    return 0 if os.read(ready, 1) else 1


def record(file: Path, text: str) -> None:
    """Write it whole or not at all: a start that is killed meanwhile leaves nothing that the next one cannot read."""
    partial = file.with_name(f".{file.name}")
    partial.write_text(text)
    partial.replace(file)


def hold(state: Path, tell: int) -> None:
    mount_own(state)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps every orphan
    os.write(tell, b"+")
    os.close(tell)
    while True:
        signal.pause()


def mount_own(state: Path) -> None:
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "tmpfs", "/run")
    for source, target in OWN.items():
        for directory in (state / source, Path(target)):
            directory.mkdir(parents=True, exist_ok=True)
        mount("--bind", str(state / source), target)
    mount("--make-rshared", "/")  # within the cluster, mounts of the kubelet must reach containers


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
