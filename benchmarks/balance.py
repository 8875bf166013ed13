"""How long one balance takes for one job: `python benchmarks/balance.py [--max-ms 5]`.

Times `balance()` on snapshots of the simulated demo (1 s scrapes, 60 s and longer windows): while a move is open, while
a move is found, and in balance. And the proposal alone for a job with 1,024 GPUs, 4 stages, 10 profiles a stage and up
to 1,024 replicas of each, without and with quotas of CPU and memory that bind. Prints the slowest kind and its share of
the limit; the result goes to benchmarks/results/balance.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))  # the simulated pipeline lives with the tests

from steelyard.balance import balance
from steelyard.balance.bounds import spec_bounds
from steelyard.balance.propose import better_split, more_slots, unbounded_gain
from steelyard.balance.types import Rates, Seen
from tests.unit.balance.large import a_large_model, a_large_spec, where_it_is
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


def propose() -> dict[str, Callable[[int], object]]:
    """What to time for the large job, by name; the argument makes calls differ."""
    spec, current = a_large_spec(1024, profiles=10, replicas=1024), where_it_is()
    bounds = spec_bounds(spec)
    quota = {"cpu": Fraction(1200), "memory": Fraction(8 * 2**40)}
    models = [a_large_model(10, variant) for variant in range(ROUNDS)]

    def both(variant: int, quota: Mapping[str, Fraction]) -> object:
        return [propose(models[variant], spec, current, bounds, quota) for propose in (more_slots, better_split)]

    return {
        "1,024 GPUs": lambda variant: both(variant, {}),
        "1,024 GPUs, quotas": lambda variant: both(variant, quota),
        "bound of any gain": lambda variant: unbounded_gain(models[variant], spec, current),
    }


def timed(call: Callable[[int], object]) -> list[float]:
    times = []
    for variant in range(ROUNDS):
        started = time.thread_time()
        call(variant)
        times.append((time.thread_time() - started) * 1000)
    return times


def peak_mib(call: Callable[[], object]) -> float:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 2**20, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ms", type=float, default=5.0, help="limit for the slowest kind's median")
    limit = parser.parse_args().max_ms
    ticks = snapshots(420)
    kinds = {kind: measure(of) for kind, of in ticks.items()}
    large = propose()
    kinds |= {name: timed(call) for name, call in large.items()}
    result = {
        "limitMs": limit,
        "kinds": {
            kind: {"calls": len(times), "p50Ms": round(median(times), 3), "p95Ms": round(quantiles(times, n=20)[-1], 3)}
            for kind, times in kinds.items()
            if len(times) > 1
        },
        "peakMiB": peak_mib(lambda: balance(*ticks["Gain"][0])),
        "largePeakMiB": max(peak_mib(partial(call, 0)) for call in large.values()),
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
