"""Steelyard against what users would pick instead, on the digital twin: `python benchmarks/twin.py [--seeds 5]`.

Every policy of docs/decisions/0013 on five profiles with 48 GPUs. Prints how much faster Steelyard is than each, and
the targets; the figures go to benchmarks/results/twin.json. A target that is missed is printed and fails nothing.

A run depends on its profile, its policy and its seed alone. So after a change of one policy `--policy NAME` plays that
one anew, and the rows of the others stay as they were measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from steelyard.twin.compare import POLICIES, play
from steelyard.twin.profiles import profile
from steelyard.twin.report import figures

RESULT = Path(__file__).parent / "results" / "twin.json"
PROFILES = ("drift", "jump", "up-down", "drift-linear", "steady")
GPUS = 48
CORES = 2
MOST_MOVES = 15
TARGETS = (
    ("drift", "static-initial", 1.35),
    ("drift", "static-hindsight", 0.98),
    ("drift", "oracle", 0.95),
    ("steady", "static-initial", 0.99),
)
PAPERS = "the papers report 3 to 4.2"

Row = dict[str, Any]


def measure(task: tuple[str, int, Sequence[str]]) -> Row:
    name, seed, policies = task
    played = [play(profile(name, GPUS), policy, seed) for policy in policies]
    return {"profile": name, "seed": seed, "policies": [{"policy": one.policy, **figures(one.run)} for one in played]}


def recorded() -> dict[tuple[str, int], Row]:
    """What was measured before."""
    rows: list[Row] = json.loads(RESULT.read_text()) if RESULT.exists() else []
    return {(row["profile"], row["seed"]): row for row in rows}


def merged(before: Row | None, now: Row) -> Row:
    """One profile and seed: what was played now, and the policies that were not as they were."""
    by_policy = {one["policy"]: one for row in (before, now) if row for one in row["policies"]}
    return {**now, "policies": [by_policy[policy] for policy in POLICIES if policy in by_policy]}


def ratio(rows: Sequence[Row], name: str, policy: str) -> float:
    """Steelyard's throughput over the policy's: geometric mean over the seeds of a profile."""
    return geometric_mean(_of(row, "steelyard") / _of(row, policy) for row in rows if row["profile"] == name)


def moves(rows: Sequence[Row], name: str, policy: str) -> list[int]:
    return [
        one["moves"] for row in rows if row["profile"] == name for one in row["policies"] if one["policy"] == policy
    ]


def _of(row: Row, policy: str) -> float:
    throughputs: Mapping[str, float] = {one["policy"]: one["throughput"] for one in row["policies"]}
    return throughputs[policy]


def show(rows: Sequence[Row]) -> None:
    print("\nSteelyard's throughput over each policy's (geometric mean of the seeds) and that policy's moves, most\n")
    print(f"{'':17}" + "".join(f"{name:>16}" for name in PROFILES))
    for policy in POLICIES:
        cells = (f"{ratio(rows, name, policy):9.2f} ({max(moves(rows, name, policy)):4})" for name in PROFILES)
        print(f"{policy:17}" + "".join(cells))
    print()
    for name, policy, least in TARGETS:
        reached = ratio(rows, name, policy)
        print(f"{name}: {reached:.3f} x {policy}, target {least}: {'met' if reached >= least else 'MISSED'}")
    most = max(count for name in PROFILES for count in moves(rows, name, "steelyard"))
    verdict = "met" if most <= MOST_MOVES else "MISSED"
    print(f"moves of Steelyard in 150 steps: at most {most}, target {MOST_MOVES}: {verdict}")
    print(f"drift: {ratio(rows, 'drift', 'colocated-sync'):.2f} x colocated-sync; {PAPERS}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 to N of each profile")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="play only this one; may be repeated")
    asked = parser.parse_args()
    tasks = [(name, seed, asked.policy or [*POLICIES]) for name, seed in product(PROFILES, range(1, asked.seeds + 1))]
    begin, rows = time.monotonic(), recorded() if asked.policy else {}
    RESULT.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(CORES) as pool:
        for row in pool.map(measure, tasks):
            key = row["profile"], row["seed"]
            rows[key] = merged(rows.get(key), row)
            ordered = sorted(rows.values(), key=lambda one: (PROFILES.index(one["profile"]), one["seed"]))
            RESULT.write_text(json.dumps(ordered, indent=1) + "\n")
            print(f"{time.monotonic() - begin:6.0f} s  {row['profile']}, seed {row['seed']}", flush=True)
    whole = [row for row in rows.values() if len(row["policies"]) == len(POLICIES)]
    if {row["profile"] for row in whole} == {*PROFILES}:
        show(whole)


if __name__ == "__main__":
    main()
