"""`steelyard`: what people run beside the operator. Each command is a module of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = ("plan", "twin")
"""Each is the function of that name in the module of that name."""


class Commands(TyperGroup):
    """Imports a command when it is named, so that none pays for what another needs."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the group's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002 - likewise
        if cmd_name not in COMMANDS:
            return None
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name)(getattr(import_module(f"steelyard.cli.{cmd_name}"), cmd_name))
        command = typer.main.get_command(alone)
        assert isinstance(command, TyperCommand)
        return command


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)


@app.callback()
def root() -> None:
    """Keeps agentic-RL post-training pipelines in balance."""


def main() -> None:
    """Entry point of the console script."""
    app()
