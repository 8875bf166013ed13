"""How fast the digital twin is: `python benchmarks/twin_engine.py [--seeds 3]`.

Runs the profile `drift` to its end with the split that is best at the start; nobody changes it. Processor time of
the run alone, best of the seeds: what others do on the machine is not ours. Prints a table; the result goes to
benchmarks/results/twin_engine.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from math import inf
from pathlib import Path

from steelyard.twin.engine import Pipeline
from steelyard.twin.jobs import best_split
from steelyard.twin.profiles import profile

RESULT = Path(__file__).parent / "results" / "twin_engine.json"
EVENTS_PER_SECOND = 200_000
TRAJECTORIES_PER_SECOND = 8_000


def measure(seed: int) -> dict[str, float]:
    """One whole run."""
    drift = profile("drift")
    pipeline = Pipeline(drift, best_split(drift), seed)
    started = time.thread_time()
    pipeline.run_until(inf)
    seconds = time.thread_time() - started
    return {
        "seed": seed,
        "seconds": round(seconds, 3),
        "eventsPerSecond": round(pipeline.events / seconds),
        "calendarPerSecond": round(pipeline.calendar / seconds),
        "trajectoriesPerSecond": round(pipeline.trained / seconds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    runs = [measure(seed) for seed in range(1, parser.parse_args().seeds + 1)]
    best = max(runs, key=lambda run: run["trajectoriesPerSecond"])
    result = {
        "limits": {"eventsPerSecond": EVENTS_PER_SECOND, "trajectoriesPerSecond": TRAJECTORIES_PER_SECOND},
        "best": best,
        "runs": runs,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print("seed  seconds  events/s  calendar entries/s  trajectories/s")
    for run in runs:
        print(
            f"{run['seed']:4}  {run['seconds']:7.2f}  {run['eventsPerSecond']:8}  {run['calendarPerSecond']:18}"
            f"  {run['trajectoriesPerSecond']:14}"
        )
    fast = best["eventsPerSecond"] >= EVENTS_PER_SECOND
    return 0 if fast and best["trajectoriesPerSecond"] >= TRAJECTORIES_PER_SECOND else 1


if __name__ == "__main__":
    sys.exit(main())
