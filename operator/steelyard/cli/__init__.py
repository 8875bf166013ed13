"""`steelyard`: what people run beside the operator. Each command is a module of `commands`, imported when called."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli import process
from steelyard.cli.session import SHARED, with_session

CONTEXT = {"help_option_names": ["-h", "--help"]}
GROUPS = {
    "Look": {
        "status": "Show jobs: phase, ready/desired replicas of each stage, GPUs, rates, the last decision.",
        "tree": "Show what a job consists of: stages, workloads, pods, and what is wrong where.",
        "top": "Watch one job: where each stage's time goes, what waits, the bottleneck, the last decisions.",
        "history": "Show what was decided about a job, what became of it, and who changed what; the latest last.",
        "logs": "Show the logs of a job's pods as one stream.",
        "dashboard": "Serve a read-only page about jobs to this machine's browser.",
    },
    "Understand": {
        "explain": "Explain a decision: inputs, target, each limiter, outcome, and what would change it.",
        "why-not": "Say what keeps a stage from having N replicas, and the threshold to cross.",
        "diff": "Say what applying a job's file would come to, and write nothing.",
        "trace": "Show where trajectories spent their time: who worked, who waited for whom.",
        "audit": "Audit a stretch of a job's time: where it went, what holds it back, what moving GPUs is worth.",
        "check": "Check cluster, operator, metrics and jobs; every check runs, none needs the internet.",
        "bundle": "Collect a job's objects, events, metrics and logs in one file, without secrets.",
    },
    "Act": {
        "hold": "Hold a stage at so many replicas for a while.",
        "pause": "Freeze scaling, or suspend the pods.",
        "resume": "End the holds of a job, or let a suspended one go on.",
        "undo": "Go back to an earlier allocation for a while.",
    },
    "Before a run": {
        "init": "Write a job to start from, with comments that teach.",
        "plan": "Plan the split between training and sampling before the first run.",
        "twin": "Simulate a job under a policy, or under every policy, on the digital twin.",
        "rehearse": "Run a job small before it runs: one task, a few at once, all stages.",
    },
}
"""What one wants to do -> command -> what it does.

Each is the function of that name (`why_not` for `why-not`) in a module of that name.
"""
COMMANDS = {name: said for commands in GROUPS.values() for name, said in commands.items()}


class Commands(TyperGroup):
    """Imports a command when it is named, so that none pays for what another needs."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{**how, "commands": dict.fromkeys(COMMANDS)})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Whom to ask about which namespace may stand before the command, too, as with kubectl."""
        before: list[str] = []
        while args and args[0].partition("=")[0] in SHARED:
            taken = 1 if "=" in args[0] else 2
            before, args = [*before, *args[:taken]], args[taken:]
        return super().parse_args(ctx, [*args[:1], *before, *args[1:]])

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002 - the group's signature
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
        alone.command(cmd_name)(with_session(getattr(import_module(f"steelyard.cli.commands.{name}"), name)))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """The list of `--help`, which imports none of them."""
        width = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), said) for name, said in commands.items()])


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain, as kubectl's: it starts in half the time
    context_settings=CONTEXT,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("steelyard"))
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keeps agentic-RL post-training pipelines in balance."""


def main() -> None:
    """Entry point of the console scripts."""
    with process.prepared():
        app(prog_name=process.name())
