"""One round of a pool with many jobs: `python benchmarks/pools.py [--jobs 1000] [--max-ms 1000]`.

A pool of 10,000 GPUs in four queues, every job with nine pods and a measured model, more wanted than there is. Times
the round that shares everything out, a round in which nothing changed, and a round in which one job went; counts the
bytes of the pool's status and the memory that jobs and pool take. The result goes to benchmarks/results/pools.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # the cluster in memory lives with the tests

from steelyard.pools.loop import Pool, PoolDependencies
from steelyard.telemetry import Telemetry
from tests.builders import job_manifest, pool_manifest
from tests.fakes import FakeCluster

RESULT = Path(__file__).parent / "results" / "pools.json"
ROUNDS = 9
GPUS = 10_000
QUEUES = [
    {"name": f"q{i}", "namespaces": ["default"], "weight": i + 1, "priority": i % 2, "guaranteedGpus": 1000}
    for i in range(4)
]


def populate(cluster: FakeCluster, jobs: int) -> None:
    """A pool and its jobs, each with pods of three GPUs bound."""
    cluster.create(pool_manifest({"gpus": GPUS, "queues": QUEUES}))
    for number in range(jobs):
        name = f"job-{number}"
        changes = {
            "pool": {"name": "shared", "queue": f"q{number % 4}"},
            "budget.gpus": 4 + number % 29,
            "stages.sampler.replicas.max": 32,
        }
        cluster.create(job_manifest(changes, name=name))
        for pod in range(9):
            cluster.create(_pod(name, pod))


def _pod(job: str, number: int) -> dict[str, object]:
    labels = {"steelyard.dev/job": job, "steelyard.dev/stage": "sampler", "steelyard.dev/profile": "whole"}
    annotations = {"steelyard.dev/gpus": "1" if number < 3 else "0"}
    metadata = {"name": f"{job}-{number}", "labels": labels, "annotations": annotations}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": ready},
    }


async def measure(jobs: int) -> dict[str, float]:
    """Milliseconds of processor time by kind of round; bytes; MiB."""
    tracemalloc.start()
    cluster = FakeCluster(watches_gpus=False)
    populate(cluster, jobs)
    before = tracemalloc.get_traced_memory()[0]
    deps = PoolDependencies(cluster, Telemetry(), lambda: cluster.now, {})
    pool = Pool("shared", deps)
    await pool.tick(cluster.now)
    tracemalloc.reset_peak()
    await pool.tick(cluster.now + 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first = [await _timed(Pool("shared", deps), cluster.now + 2) for _ in range(ROUNDS)]
    idle = [await _timed(pool, cluster.now + 3) for _ in range(ROUNDS)]
    changed = []
    for number in range(ROUNDS):
        cluster.delete("AgenticRLJob", f"job-{number}")
        changed.append(await _timed(pool, cluster.now + 4 + number))
    status = cluster.get("RLPool", "shared")["status"]
    return {
        "jobs": jobs,
        "firstMs": round(median(first), 1),
        "idleMs": round(median(idle), 1),
        "changedMs": round(median(changed), 1),
        "statusKiB": round(len(json.dumps(status)) / 1024, 1),
        "roundMiB": round((peak - before) / 2**20, 1),
    }


async def _timed(pool: Pool, now: float) -> float:
    started = time.thread_time()
    await pool.tick(now)
    return (time.thread_time() - started) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--max-ms", type=float, default=1000.0, help="limit for the slowest kind of round")
    options = parser.parse_args()
    result = asyncio.run(measure(options.jobs))
    slowest = max(result[kind] for kind in ("firstMs", "idleMs", "changedMs"))
    result |= {"limitMs": options.max_ms, "ratio": round(slowest / options.max_ms, 3)}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print("\n".join(f"{name:12} {value:g}" for name, value in result.items()))
    return 0 if result["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
