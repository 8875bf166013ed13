"""How long one balance takes for one job: `python benchmarks/balance.py [--max-ms 5]`.

Times `balance()` on snapshots of the simulated demo (1 s scrapes, 60 s and longer windows): while a move is open, while
a move is found, and in balance. Prints the slowest kind and its share of the limit; the result goes to
benchmarks/results/balance.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))  # the simulated pipeline lives with the tests

from steelyard.balance import balance
from steelyard.balance.types import Rates, Seen
from tests.unit.balance.loop import Loop, demo_job

RESULT = Path(__file__).parent / "results" / "balance.json"
ROUNDS = 30

Snapshot = tuple[Seen, Rates, float]


def snapshots(seconds: float) -> dict[str, list[Snapshot]]:
    """Decision kind -> ticks of the demo that end in it."""
    loop = Loop(demo_job())
    found: dict[str, list[Snapshot]] = {}
    for _ in range(int(seconds / 5)):
        snapshot = loop.seen(), loop.rates(), loop.pipeline.now
        plan = loop.tick()
        found.setdefault(plan.decision.kind, []).append(snapshot)
        loop.pipeline.advance(5)
    return found


def measure(ticks: list[Snapshot]) -> list[float]:
    """Milliseconds of processor time of each call: what others do on the machine is not ours."""
    times = []
    for seen, rates, now in ticks * max(1, ROUNDS // len(ticks)):
        started = time.thread_time()
        balance(seen, rates, now)
        times.append((time.thread_time() - started) * 1000)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ms", type=float, default=5.0, help="limit for the slowest kind's median")
    limit = parser.parse_args().max_ms
    ticks = snapshots(420)
    kinds = {kind: measure(of) for kind, of in ticks.items()}
    tracemalloc.start()
    balance(*ticks["Gain"][0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    result = {
        "limitMs": limit,
        "kinds": {
            kind: {"calls": len(times), "p50Ms": round(median(times), 3), "p95Ms": round(quantiles(times, n=20)[-1], 3)}
            for kind, times in kinds.items()
            if len(times) > 1
        },
        "peakMiB": round(peak / 2**20, 1),
    }
    slowest = max(result["kinds"].items(), key=lambda item: item[1]["p50Ms"])
    result["ratio"] = round(slowest[1]["p50Ms"] / limit, 3)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    for kind, figures in result["kinds"].items():
        print(f"{kind:20} p50 {figures['p50Ms']:6.2f} ms   p95 {figures['p95Ms']:6.2f} ms   {figures['calls']} calls")
    print(f"slowest: {slowest[0]}, {result['ratio']:.2f} of the limit of {limit:g} ms")
    return 0 if result["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
