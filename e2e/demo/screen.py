"""The demo's screen: a pure function from what was seen to what rich draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from e2e.demo.signals import Signals
from e2e.kube import Object

STAGES = {"sampler": "sampler", "environment": "environment", "rewardServer": "reward-server", "trainer": "trainer"}
COLOURS = {
    "busy": "green",
    "tokens": "cyan",
    "tool": "yellow",
    "starved": "blue",
    "blocked": "red",
    "paced": "magenta",
    "sync": "bright_black",
    "drain": "bright_black",
}
LETTERS = {
    "busy": "B",
    "tokens": "t",
    "tool": "T",
    "starved": "·",
    "blocked": "#",
    "paced": "p",
    "sync": "w",
    "drain": "d",
}
"""For eyes and logs that see no colours."""
BAR = 32


@dataclass(frozen=True)
class View:
    """One second of the demo."""

    elapsed_seconds: float
    job: Object
    revisions: Sequence[Object] = ()
    gpus_used: float = 0.0
    signals: Signals = field(default_factory=Signals)


def render(view: View) -> RenderableType:
    """Stages with their time split and throughput, buffers, training, and the decisions with their reasons."""
    return Group(_headline(view), _stages(view), _buffers(view.signals), _decisions(view), _legend())


def _headline(view: View) -> RenderableType:
    status = view.job.get("status") or {}
    training, bottleneck = status.get("training") or {}, status.get("bottleneck") or {}
    budget = (status.get("gpus") or {}).get("budget", view.job["spec"]["budget"]["gpus"])
    return Text.assemble(
        (f"{view.job['metadata']['name']}  ", "bold"),
        f"{view.elapsed_seconds:4.0f} s   {status.get('phase', 'Pending')}   ",
        f"step {training.get('step', 0)}/{view.job['spec']['algorithm']['steps']}   ",
        f"reward {training.get('reward') or '–'}   GPUs {view.gpus_used:g}/{budget}\n",
        ("bottleneck: ", "dim"),
        bottleneck.get("stage") or "–",
        (f"  {bottleneck.get('evidence', '')}", "dim"),
    )


def _stages(view: View) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for title in ("stage", "replicas", "where its time goes", "units/s"):
        table.add_column(title, no_wrap=True, justify="right" if title == "units/s" else "left")
    stages = (view.job.get("status") or {}).get("stages") or {}
    for key, stage in STAGES.items():
        profiles = (stages.get(key) or {}).get("profiles") or {}
        replicas = ", ".join(
            f"{counts.get('ready', 0)}/{counts.get('desired', 0)}" + (f" {name}" if name != "default" else "")
            for name, counts in profiles.items()
            if counts.get("desired") or counts.get("ready") or counts.get("draining")
        )
        rate = view.signals.throughput.get(stage)
        table.add_row(
            stage, replicas or "–", time_bar(view.signals.states.get(stage)), "–" if rate is None else f"{rate:.1f}"
        )
    return table


def time_bar(shares: Mapping[str, float] | None) -> Text:
    """A bar of BAR cells split by state, largest remainders first so that it is always exactly full."""
    if not shares:
        return Text("no data".ljust(BAR), style="dim")
    exact = {state: share * BAR for state, share in shares.items()}
    cells = {state: int(value) for state, value in exact.items()}
    for state in sorted(exact, key=lambda s: cells[s] - exact[s])[: BAR - sum(cells.values())]:
        cells[state] += 1
    return Text.assemble(
        *((LETTERS[s] * cells[s], f"black on {colour}") for s, colour in COLOURS.items() if cells.get(s))
    )


def _buffers(signals: Signals) -> RenderableType:
    parts = [
        f"{name} {signals.depth[name]:.0f}/{signals.capacity.get(name, 0):.0f}"
        for name in ("tasks", "trajectories", "experience")
        if name in signals.depth
    ]
    return Text.assemble(("buffers: ", "dim"), "   ".join(parts) or "no data")


def _decisions(view: View) -> RenderableType:
    lines = [Text("\ndecisions", style="dim")]
    lines += [decision_line(revision) for revision in view.revisions[-4:]]
    latest = ((view.job.get("status") or {}).get("lastDecisions") or [])[:1]
    lines += [Text(f"now: {latest[0].get('reason', '')}", style="dim")] if latest else []
    return Group(*lines)


def decision_line(revision: Object) -> Text:
    """`#2 environment 1→2: reason  Kept, 8.1→15.8/s`."""
    spec, status = revision["spec"], revision.get("status") or {}
    measured = status.get("measured") or {}
    before, after = measured.get("throughputBefore"), measured.get("throughputAfter")
    change = f", {before}→{after}/s" if before and after else ""
    verdict = status.get("verdict") or status.get("phase") or "Pending"
    colour = {"Kept": "green", "RolledBack": "red"}.get(verdict, "yellow")
    return Text.assemble(
        (f"#{spec['number']} ", "bold"),
        moves(spec["allocation"]),
        (f"  {spec['reason']}", "dim"),
        (f"  {verdict}{change}", colour),
    )


def moves(allocation: Object) -> str:
    """What a revision changes, as `environment 1→2, sampler whole 2→1`."""
    before, after = allocation.get("before") or {}, allocation.get("after") or {}
    found = []
    for stage in STAGES:
        old, new = before.get(stage) or {}, after.get(stage) or {}
        for profile in sorted({*old, *new}):
            if old.get(profile, 0) != new.get(profile, 0):
                name = stage if profile == "default" else f"{stage} {profile}"
                found.append(f"{name} {old.get(profile, 0)}→{new.get(profile, 0)}")
    return ", ".join(found) or "no change"


def _legend() -> Text:
    return Text.assemble(*((f" {LETTERS[state]} {state} ", f"black on {colour}") for state, colour in COLOURS.items()))
