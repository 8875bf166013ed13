"""The comparison as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from steelyard.api import Stage
from steelyard.twin.compare import Played
from steelyard.twin.engine import START
from steelyard.twin.jobs import trainer_gpus
from steelyard.twin.run import Run

WIDTH = 110


def table(played: Sequence[Played]) -> str:
    """One row a policy, then what the first of them decided when it says so."""
    first = played[0].run
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("policy", "trajectories/s", f"of {played[0].policy}", "hours", "GPU-hours", "moves", "ends with"):
        rows.add_column(name, justify="left" if name in ("policy", "ends with") else "right")
    for one in played:
        rows.add_row(
            one.policy,
            f"{one.run.throughput:.3g}",
            f"{one.run.throughput / first.throughput:.2f}",
            f"{one.run.seconds / 3600:.2f}",
            f"{one.run.gpu_hours:.0f}",
            str(one.run.moves),
            _split(one.run),
        )
    console = Console(file=StringIO(), width=WIDTH, no_color=True, highlight=False)
    console.print(rows)
    if len(played) == 1 and played[0].decisions:
        console.print()
        for at, decision in played[0].decisions:
            console.print(f"{(at - START) / 60:7.1f} min  {decision.action:9} {decision.reason}", markup=False)
    printed = console.file
    assert isinstance(printed, StringIO)
    return printed.getvalue()


def _split(run: Run) -> str:
    last = run.changes[-1].allocation
    samplers, judges = last.replicas(Stage.SAMPLER), last.replicas(Stage.REWARD_SERVER)
    return f"{samplers} samplers, {judges} judges, {trainer_gpus(run.profile, last)} GPUs train"


def document(played: Sequence[Played]) -> dict[str, Any]:
    """`{profile, seed, gpus, steps, policies: [{policy, throughput, gpuHours, moves, ...}]}`."""
    first = played[0].run
    return {
        "profile": first.profile.name,
        "seed": first.seed,
        "gpus": first.profile.gpus,
        "steps": first.profile.steps,
        "policies": [{"policy": one.policy, **figures(one.run), **_course(one)} for one in played],
    }


def figures(run: Run) -> dict[str, Any]:
    """The three figures that policies are compared by."""
    return {"throughput": round(run.throughput, 4), "gpuHours": round(run.gpu_hours, 2), "moves": run.moves}


def _course(played: Played) -> dict[str, Any]:
    run = played.run
    return {
        "seconds": round(run.seconds, 1),
        "stepEnds": [round(end - START, 1) for end in run.step_ends],
        "changes": [
            {"at": round(one.at - START, 1), "step": one.step, "allocation": one.allocation.to_dict()}
            for one in run.changes
        ],
        "decisions": [
            {"at": round(at - START, 1), "action": one.action, "kind": one.kind, "reason": one.reason}
            for at, one in played.decisions
        ],
    }
