"""`steelyard`: what people run beside the operator. Each command is a module of its own, imported when it is called."""

from __future__ import annotations

import typer

from steelyard.cli.plan import plan

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def root() -> None:
    """Keeps agentic-RL post-training pipelines in balance."""


app.command()(plan)


def main() -> None:
    """Entry point of the console script."""
    app()
