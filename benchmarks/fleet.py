"""How long it takes to share a pool: `python benchmarks/fleet.py [--max-seconds 1]`.

1,000 jobs on 10,000 GPUs: the curve of every job from its model and spec, then one weighted max-min over all, with
guarantees, limits, priorities and jobs that wait. Processor time; the result goes to benchmarks/results/fleet.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc
from math import inf
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))  # the large jobs live with the tests

from steelyard.balance.fleet import Claim, Curve, curve_of, share
from tests.unit.balance.large import a_large_model, a_large_spec

RESULT = Path(__file__).parent / "results" / "fleet.json"
JOBS, GPUS, JOB_GPUS, REPLICAS = 1000, 10_000, 64, 64
AGEING_SECONDS = 600.0
ROUNDS = 5


def claims(of: list[Curve]) -> list[Claim]:
    chance = random.Random(7)
    return [
        Claim(
            f"job-{index}",
            curve,
            weight=chance.choice([0.5, 1.0, 1.0, 4.0]),
            priority=chance.randrange(3),
            guaranteed=chance.choice([0.0, 0.0, 4.0]),
            limit=chance.choice([inf, 32.0]),
            held=float(index % 3),
            waiting_seconds=chance.choice([0.0, chance.uniform(0, 1e5)]),
            since=float(index),
        )
        for index, curve in enumerate(of)
    ]


def measure(profiles: int) -> dict[str, float]:
    """Seconds of processor time, the jobs' specs and models made before."""
    inputs = [(a_large_model(profiles, job), a_large_spec(JOB_GPUS, profiles, REPLICAS)) for job in range(JOBS)]
    totals, shares = [], []
    for _ in range(ROUNDS):
        started = time.thread_time()
        built = [curve_of(model, spec) for model, spec in inputs]
        claimed = claims(built)
        before = time.thread_time()
        share(claimed, GPUS, ageing_seconds=AGEING_SECONDS)
        ended = time.thread_time()
        totals.append(ended - started)
        shares.append(ended - before)
    tracemalloc.start()
    share(claims([curve_of(model, spec) for model, spec in inputs]), GPUS, ageing_seconds=AGEING_SECONDS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "totalP50Seconds": round(median(totals), 3),
        "totalP95Seconds": round(quantiles(totals, n=20)[-1], 3),
        "shareP50Seconds": round(median(shares), 3),
        "stairs": sum(len(curve.gpus) for curve in built),
        "peakMiB": round(peak / 2**20, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-seconds", type=float, default=1.0, help="limit for the median with 3 profiles a stage")
    limit = parser.parse_args().max_seconds
    found = {profiles: measure(profiles) for profiles in (1, 3, 8)}
    result = {"jobs": JOBS, "gpus": GPUS, "limitSeconds": limit, "profilesPerStage": found}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    for profiles, figures in found.items():
        print(f"{profiles} profiles a stage: {figures}")
    return 0 if found[3]["totalP50Seconds"] <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
