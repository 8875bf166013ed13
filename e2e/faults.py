"""Faults for the scenarios: SIGKILL of a container's main process, from outside, as the kernel's OOM killer would."""

import os
import signal
from pathlib import Path

from e2e.kube import Object


def main_process(pod: Object, container: str) -> int:
    """The host's number of the process that is PID 1 of a container. ProcessLookupError when it does not run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ids = [status.get("containerID", "").rpartition("/")[2] for status in statuses if status["name"] == container]
    if ids and ids[0]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                inside = ids[0] in (process / "cgroup").read_text()
                if inside and _own_number(process) == 1:
                    return int(process.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
    raise ProcessLookupError(f"container {container} of pod {pod['metadata']['name']} does not run")


def kill(pod: Object, container: str) -> None:
    """kill -9; nothing is told and nothing is flushed."""
    os.kill(main_process(pod, container), signal.SIGKILL)


def restarts(pod: Object) -> int:
    """How often the pod's containers were started again."""
    return sum(status["restartCount"] for status in (pod.get("status") or {}).get("containerStatuses") or [])


def _own_number(process: Path) -> int:
    """The process's number in its innermost PID namespace."""
    line = next(line for line in (process / "status").read_text().splitlines() if line.startswith("NSpid:"))
    return int(line.split()[-1])
