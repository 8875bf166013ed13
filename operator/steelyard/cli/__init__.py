"""`steelyard`: what people run beside the operator. Each command is a module of `commands`, imported when called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.session import with_session

COMMANDS = {
    "audit": "Audit a stretch of a job's time: where it went, what holds it back, what moving GPUs is worth.",
    "status": "Show jobs: phase, ready/desired replicas of each stage, GPUs, rates, the last decision.",
    "tree": "Show what a job consists of: stages, workloads, pods, and what is wrong where.",
    "top": "Watch one job: where each stage's time goes, what waits, the bottleneck, the last decisions.",
    "history": "Show what was decided about a job, what became of it, and who changed what; the latest last.",
    "explain": "Explain a decision: inputs, target, each limiter, outcome, and what would change it.",
    "why-not": "Say what keeps a stage from having N replicas, and the threshold to cross.",
    "hold": "Hold a stage at so many replicas for a while.",
    "pause": "Freeze scaling, or suspend the pods.",
    "resume": "End the holds of a job, or let a suspended one go on.",
    "undo": "Go back to an earlier allocation for a while.",
    "dashboard": "Serve a read-only page about jobs to this machine's browser.",
    "trace": "Show where trajectories spent their time: who worked, who waited for whom.",
    "logs": "Show the logs of a job's pods as one stream.",
    "bundle": "Collect a job's objects, events, metrics and logs in one file, without secrets.",
    "init": "Write a job to start from, with comments that teach.",
    "rehearse": "Run a job small before it runs: one task, a few at once, all stages.",
    "check": "Check cluster, operator, metrics and jobs; every check runs, none needs the internet.",
    "plan": "Plan the split between training and sampling before the first run.",
    "twin": "Simulate a job under a policy, or under every policy, on the digital twin.",
}
"""Name -> what it does. Each is the function of that name (`why_not` for `why-not`) in a module of that name."""


class Commands(TyperGroup):
    """Imports a command when it is named, so that none pays for what another needs."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the group's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002 - likewise
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name)(with_session(getattr(import_module(f"steelyard.cli.commands.{name}"), name)))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """The list of `--help`, which imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain, as kubectl's: it starts in half the time
)


@app.callback()
def root() -> None:
    """Keeps agentic-RL post-training pipelines in balance."""


def main() -> None:
    """Entry point of the console scripts."""
    app()
