"""`python -m steelyard.cli.reference`: the help of every command as a page, or check it with --check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from steelyard.api.generate import generate
from steelyard.cli import COMMANDS, app

WIDTH = 100
_HEAD = """# Commands

Generated from `operator/steelyard/cli` by `make generate`; do not edit. `kubectl steelyard` is the same program.
[Messages](../messages.md) explains what it may complain about, and the exit codes.
"""


def reference() -> str:
    """Markdown: a section a command, in the order of `steelyard --help`."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    above = group.make_context("steelyard", [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH)
    return "\n".join([_HEAD, *(_section(group, above, name) for name in COMMANDS)])


def _section(group: TyperGroup, above: Any, name: str) -> str:
    command = group.get_command(above, name)
    assert command is not None
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    return f"## {name}\n\n```text\n{text}\n```\n"


def generated(_: Path) -> dict[str, str]:
    """Path below the repository's root -> content."""
    return {"docs/reference/cli.md": reference()}


if __name__ == "__main__":
    sys.exit(generate("python -m steelyard.cli.reference", __doc__ or "", generated))
