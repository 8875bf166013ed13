"""The cold-start planner beside Libra's: time, memory and judged quality. `make bench-planner`, or
`LIBRA=path/to/Libra make bench-planner` to run Libra's released planner here as well.

Without LIBRA its times and plans are those of libra.json, which says where they come from. Libra mixes TP sizes for a
router of its own, so all plans are judged under a length-blind router and under one that knows every length. Our times
are processor time of one thread: what others do on the machine is not ours. Prints a table, writes
benchmarks/results/planner.json and fails when a promise is not kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.planner.inputs import BATCH, CONTEXT, GPUS, REQUESTS, batches, history
from benchmarks.planner.judge import Layout, Verdict, judge, published_rate
from steelyard.balance.coldstart import Plan, Question, plan
from steelyard.balance.coldstart.rows import HardwareRow, ModelRow, calibration, hardware_row, model_row

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "planner.json"
ROUNDS = 40
JUDGED_BATCHES = 3
LIBRA_CASES = ((8, 128), (8, 512), (8, 4096), (48, 128), (48, 512), (1024, 512))
"""Those that its released planner finishes in about half a minute all together."""
LIBRA_SECONDS = 400
LIMITS_MS = {8: 40, 48: 40, 128: 40, 256: 40, 1024: 100}
FASTER = {(48, 512): 500, (48, 4096): 5000, (128, 512): 5000}
P99_MS, PEAK_MIB, WORSE = 500, 64, 1.05


@dataclass(frozen=True)
class Timing:
    p50_ms: float
    p99_ms: float
    peak_mib: float


def measure(question: Question) -> Timing:
    """Processor time of a whole call, and the memory of one."""
    times = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        plan(question)
        times.append((time.thread_time() - started) * 1000)
    tracemalloc.start()
    plan(question)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return Timing(median(times), float(np.quantile(times, 0.99)), peak)


def recorded() -> dict[tuple[int, int], dict[str, Any]]:
    return {(one["gpus"], one["requests"]): one for one in json.loads((HERE / "libra.json").read_text())["calls"]}


def run_libra(source: str) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Libra's planner in processes of its own, one call each."""
    for gpus, requests in LIBRA_CASES:
        command = [sys.executable, "-m", "benchmarks.planner.libra", source, str(gpus), str(requests)]
        try:
            answer = subprocess.run(
                command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True, timeout=LIBRA_SECONDS, check=True
            )
        except subprocess.TimeoutExpired:
            print(f"Libra at {gpus} x {requests} is not done in {LIBRA_SECONDS} s: its recorded time stands")
            continue
        found = json.loads(answer.stdout)
        yield (gpus, requests), {**found, "seconds": found["processorSeconds"], "source": "measured"}


def our_layout(found: Plan) -> Layout:
    train = found.training
    return Layout(train.tp, train.pp, train.dp, train.micro_batch, found.samplers)


def libra_layout(found: dict[str, Any]) -> Layout:
    train = found["train"]
    samplers = {int(tp): count for tp, count in found["samplers"].items()}
    return Layout(train["tp"], train["pp"], train["dp"], train["microBatch"], samplers)


class Bench:
    """Everything measured of one run."""

    def __init__(self, model: ModelRow, hardware: HardwareRow, libra: dict[tuple[int, int], dict[str, Any]]) -> None:
        self.model, self.hardware, self.libra = model, hardware, libra
        self._batches = batches(JUDGED_BATCHES)

    def case(self, gpus: int, requests: int) -> dict[str, Any]:
        question = Question(self.model, self.hardware, history(requests), gpus, BATCH, CONTEXT)
        found, timing = plan(question), measure(question)
        assert isinstance(found, Plan), f"{gpus} GPUs: {found}"
        row: dict[str, Any] = {
            "gpus": gpus,
            "requests": requests,
            "p50Ms": round(timing.p50_ms, 2),
            "p99Ms": round(timing.p99_ms, 2),
            "peakMiB": round(timing.peak_mib, 1),
            "plan": {
                "train": str(found.training),
                "samplers": _named(found.samplers),
                "freeGpus": found.free_gpus,
                "predictedSeconds": round(found.seconds, 1),
            },
            "judged": self._judged(our_layout(found)),
        }
        other = self.libra.get((gpus, requests))
        if other is None:
            return row
        row["libra"] = {key: other[key] for key in ("seconds", "source", "plan") if key in other}
        row["timesFaster"] = round(other["seconds"] * 1000 / timing.p50_ms)
        if other.get("plan"):
            row["libra"]["judged"] = self._judged(libra_layout(other["plan"]))
            row["ratio"] = {
                router: round(row["judged"][router] / row["libra"]["judged"][router], 3)
                for router in ("blind", "informed")
            }
        return row

    def _judged(self, layout: Layout) -> dict[str, Any]:
        blind, informed = (self._verdict(layout, informed) for informed in (False, True))
        return {
            "blind": round(blind.seconds, 1),
            "informed": round(informed.seconds, 1),
            "trainSeconds": round(blind.train_seconds, 1),
            "trainingFits": blind.fits,
        }

    def _verdict(self, layout: Layout, informed: bool) -> Verdict:
        return judge(self.model, self.hardware, layout, self._batches, CONTEXT, informed)


def _named(samplers: Any) -> dict[str, int]:
    return {f"TP{tp}": count for tp, count in samplers.items()}


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """The promises that this run does not keep."""
    found = []
    for row in rows:
        where = f"{row['gpus']} GPUs x {row['requests']} requests"
        limit = LIMITS_MS.get(row["gpus"], P99_MS)
        if row["p50Ms"] > limit or row["p99Ms"] > P99_MS:
            found.append(f"{where}: p50 {row['p50Ms']} ms, p99 {row['p99Ms']} ms, promised {limit} and {P99_MS}")
        if row["peakMiB"] > PEAK_MIB:
            found.append(f"{where}: {row['peakMiB']} MiB, promised {PEAK_MIB}")
        if row.get("timesFaster", 1e9) < FASTER.get((row["gpus"], row["requests"]), 0):
            found.append(f"{where}: {row['timesFaster']} times faster than Libra")
        found += [
            f"{where}: judged {ratio} of Libra's plan, {router} router"
            for router, ratio in _compared(row).items()
            if ratio > WORSE
        ]
    if any(middle >= 1 for middle in medians(rows).values()):
        found.append(f"no better than Libra's plans on the median: {medians(rows)}")
    return found


def medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Our judged seconds over Libra's, per router."""
    compared = [ratio for row in rows if (ratio := _compared(row))]
    return {router: median(one[router] for one in compared) for router in ("blind", "informed")} if compared else {}


def _compared(row: dict[str, Any]) -> dict[str, float]:
    """Judged ratios, where Libra's plan can run: one whose training does not fit the memory is shown, not compared."""
    ratio: dict[str, float] = row["ratio"] if "ratio" in row and row["libra"]["judged"]["trainingFits"] else {}
    return ratio


def show(row: dict[str, Any]) -> str:
    samplers = " ".join(f"{count} x {tp}" for tp, count in row["plan"]["samplers"].items())
    line = (
        f"{row['gpus']:5} {row['requests']:5}  {row['p50Ms']:6.1f} {row['p99Ms']:6.1f} ms {row['peakMiB']:5.1f} MiB  "
        f"{row['plan']['train']:33} {samplers:14} {row['judged']['blind']:6.0f} / {row['judged']['informed']:6.0f} s"
    )
    other = row.get("libra")
    if not other:
        return f"{line}  -"
    took = f"{other['seconds']:.2f} s {other['source']}, {row['timesFaster']} x"
    if "judged" not in other:
        return f"{line}  {took}: {'no plan' if 'plan' in other else 'plan not known'}"
    judged = other["judged"]
    star = "" if judged["trainingFits"] else "*"
    return f"{line}  {took}: {judged['blind']:.0f}{star} / {judged['informed']:.0f}{star} s"


def main() -> int:
    model, hardware = model_row("qwen3-14b"), hardware_row("a800-80g")
    assert isinstance(model, ModelRow)
    assert isinstance(hardware, HardwareRow)
    libra = recorded()
    if source := os.environ.get("LIBRA"):
        if not Path(source, "infra", "cost_model", "optimizer.py").is_file():
            sys.exit(f"LIBRA: {source} is no checkout of NetX-lab/Libra: it has no infra/cost_model/optimizer.py")
        libra |= dict(run_libra(source))
    bench = Bench(model, hardware, libra)
    print("judged seconds of an iteration: length-blind router / router that knows every length")
    print(f"{'GPUs':>5} {'reqs':>5}  {'p50':>6} {'p99':>6}     memory      training, samplers, judged", end="")
    print("; Libra: time, judged (* its training does not fit the memory)")
    rows = []
    for gpus in GPUS:
        for requests in REQUESTS:
            rows.append(bench.case(gpus, requests))
            print(show(rows[-1]), flush=True)
    rates = [
        {
            "published": rate.tokens_per_second,
            "judge": round(published_rate(model, hardware, rate.tensor_parallel, rate.shortest, rate.longest)),
        }
        for rate in calibration().rates
    ]
    failures = broken(rows)
    RESULT.write_text(
        json.dumps({"cases": rows, "medianRatio": medians(rows), "judgeRates": rates, "broken": failures}, indent=2)
        + "\n"
    )
    print(f"the judge reproduces the published rates as {rates}")
    unfit = sum("ratio" in row and not _compared(row) for row in rows)
    print(f"our judged seconds over Libra's, median: {medians(rows)}; {unfit} of its plans do not fit and are left out")
    print("\n".join(failures) or "every promise is kept")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
