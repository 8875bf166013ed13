"""Records what the operator's metrics source says about a running job, for the digital twin to be held against.

`python -m e2e.record --cluster demo --job calculator --seconds 60 -o run.json` waits until the pipeline has settled
under the present allocation and run for so long, then adds one window to the file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

import httpx

from e2e.cluster import Cluster
from e2e.kube import Kube, wait_for
from steelyard.api import AgenticRLJob, AllocationRevision
from steelyard.api.names import BUS, LABEL_JOB, LABEL_STAGE
from steelyard.balance.types import PodView, Rates
from steelyard.balance.words import instant
from steelyard.cluster import records
from steelyard.cluster.view import pod_view
from steelyard.metrics import Prometheus
from steelyard.twin.recording import Recording, Window, read, write

NAMESPACE = "default"


class Job:
    """One job of the cluster, as the recording needs it."""

    def __init__(self, kube: Kube, name: str) -> None:
        self._kube, self._name = kube, name

    @property
    def resource(self) -> AgenticRLJob:
        found = self._kube.get("AgenticRLJob", NAMESPACE, self._name)
        if found is None:
            raise LookupError(f"no AgenticRLJob {NAMESPACE}/{self._name}")
        return AgenticRLJob.from_cluster(found)

    @property
    def active(self) -> AllocationRevision | None:
        """The newest revision of the ledger, None before the first."""
        mine = [AllocationRevision.from_cluster(one) for one in self._kube.list("AllocationRevision", NAMESPACE)]
        mine = [one for one in mine if one.metadata.labels.get(LABEL_JOB) == self._name]
        return max(mine, key=lambda one: one.spec.number, default=None)

    def pods(self) -> tuple[PodView, ...]:
        pods = self._kube.list("Pod", NAMESPACE, f"{LABEL_JOB}={self._name},{LABEL_STAGE}!={BUS}")
        return tuple(pod_view(records.pod(pod)) for pod in pods)


def window(job: Job, prometheus: str, seconds: float) -> Window:
    """One window under one allocation. TimeoutError when none stays in force for `seconds`."""

    def settled() -> AllocationRevision | None:
        active = job.active
        status = active.status if active else None
        since = instant(status.measuring_time) if status else None
        return active if since is not None and time.time() - since >= seconds else None

    active = wait_for("an allocation in force for the whole window", settled, 10 * seconds + 300)
    now, pods = time.time(), job.pods()
    rates = asyncio.run(_read(prometheus, job.resource, pods, now, seconds))
    if rates.unavailable:
        raise LookupError(rates.unavailable.message)
    return Window(active.spec.allocation.after, now - seconds, now, pods, rates)


async def _read(url: str, job: AgenticRLJob, pods: tuple[PodView, ...], now: float, seconds: float) -> Rates:
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
        return await Prometheus(client).read(job, pods, now, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="demo")
    parser.add_argument("--job", default="calculator")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the window (default: %(default)g)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to add the window to")
    options = parser.parse_args()
    kube = Kube(Cluster(options.cluster).kubeconfig)
    job = Job(kube, options.job)
    try:
        added = window(job, f"http://{kube.address('monitoring', 'prometheus')}:9090", options.seconds)
        earlier = read(options.output.read_bytes()).windows if options.output.exists() else ()
        recording = Recording(job.resource, (*earlier, added))
    except (LookupError, TimeoutError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    options.output.write_text(write(recording) + "\n")
    print(f"{options.output}: window {len(recording.windows)}, {added.allocation}, {options.seconds:g} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
