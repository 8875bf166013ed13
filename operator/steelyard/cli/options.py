"""Options that several commands have, light enough to be imported for their help alone."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.api.names import Stage
from steelyard.cli.ages import length


def stage_named(text: str) -> Stage:
    """A stage as labels or as the spec call it."""
    for stage in Stage:
        if text in (stage.value, stage.field):
            return stage
    raise typer.BadParameter(f"{text!r} is no stage; stages are {', '.join(Stage)}")


For = Annotated[
    int | None, typer.Option("--for", parser=length, metavar="TIME", help="How long: 30m, 2h, 1d; else until ended.")
]
StageOption = Annotated[Stage, typer.Option("--stage", parser=stage_named, metavar="STAGE", help=", ".join(Stage))]
