"""The demo's summary: `build/demo.json` and a few lines for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.demo.screen import moves
from e2e.kube import Object


@dataclass(frozen=True)
class Report:
    """What the demo proved. Rates are trajectories per second, accuracies and rewards lie in 0..1."""

    accuracy: Mapping[str, float]
    """`first` and `last`: greedy, on the held-out prompts."""
    reward: Mapping[str, float]
    """`firstTen` and `lastTen`: mean training reward of those steps."""
    revisions: Sequence[Mapping[str, Any]]
    gpus: Mapping[str, float]
    """`budget`, and `maxUsed` by the 1 s log of bound pods."""
    trajectories: Mapping[str, int]
    """`trained`, `lost`, `duplicated`, as the separate checker counts them."""
    seconds: Mapping[str, float]
    """`total`, `cluster`, `images`, `job`."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    def show(self, console: Console) -> None:
        table = Table(title="What happened", show_header=False, box=None, title_justify="left")
        table.add_row("held-out accuracy", f"{self.accuracy['first']:.2f} → {self.accuracy['last']:.2f}")
        table.add_row("reward", f"{self.reward['firstTen']:.2f} → {self.reward['lastTen']:.2f}")
        for revision in self.revisions:
            before, after = revision["throughputBefore"], revision["throughputAfter"]
            change = f"  {before:g} → {after:g} trajectories/s" if before and after else ""
            verdict = revision["verdict"] or ""
            table.add_row(f"revision {revision['number']}", f"{revision['change']}  {verdict}{change}")
        table.add_row("GPUs", f"at most {self.gpus['maxUsed']:g} of {self.gpus['budget']:g}")
        table.add_row("trajectories", ", ".join(f"{count} {name}" for name, count in self.trajectories.items()))
        table.add_row("seconds", ", ".join(f"{name} {value:.0f}" for name, value in self.seconds.items()))
        console.print(table)


def revision_row(revision: Object) -> dict[str, Any]:
    """One entry of the ledger as the report shows it; what nobody judged or measured is null."""
    spec, status = revision["spec"], revision.get("status") or {}
    measured = status.get("measured") or {}
    return {
        "number": spec["number"],
        "verdict": status.get("verdict"),
        "change": moves(spec["allocation"]),
        "before": spec["allocation"].get("before") or {},
        "after": spec["allocation"]["after"],
        "throughputBefore": _number(measured.get("throughputBefore")),
        "throughputAfter": _number(measured.get("throughputAfter")),
        "reason": spec["reason"],
    }


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
