"""Options that contradict each other are refused: an option that was given is never ignored."""

from __future__ import annotations

import typer


def refuse_beside(option: str, asked: typer.Context, *others: str) -> None:
    """Raises BadParameter when one of the parameters `others`, which mean nothing beside `option`, was given too."""
    for param in asked.command.params:
        source = asked.get_parameter_source(param.name or "")
        if param.name in others and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"means nothing beside {option}: give one of them", param_hint=param.opts[0])
