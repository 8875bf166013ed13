"""Arguments and options that several commands have, light enough to be imported for their help alone."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from steelyard.api.names import Stage
from steelyard.cli.ages import length
from steelyard.cluster.places import NoPrometheus, Place, place_of

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""What Kubernetes lets objects be called."""


def job_named(text: str) -> str:
    """Such a name: what is none, an empty variable say, would be another path of the API server."""
    if not NAME.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no name of a job")
    return text


def namespace_named(text: str) -> str:
    """The same; an empty one is the context's, as to kubectl."""
    if text and not NAME.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no name of a namespace")
    return text


def stage_named(text: str) -> Stage:
    """A stage by its key in a resource (`rewardServer`), or as object names and labels have it (`reward-server`)."""
    for stage in Stage:
        if text in (stage.value, stage.field):
            return stage
    raise typer.BadParameter(f"{text!r} is no stage; stages are {', '.join(STAGES)}")


def _place(text: str) -> Place:
    try:
        return place_of(text)
    except NoPrometheus as error:
        raise typer.BadParameter(str(error)) from error


STAGES = tuple(stage.field for stage in Stage)
Job = Annotated[str, typer.Argument(parser=job_named, metavar="JOB", help="Name of an AgenticRLJob.")]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Jobs of all namespaces.")]
StageOption = Annotated[
    Stage | None, typer.Option("--stage", parser=stage_named, metavar="STAGE", help=f"One of {', '.join(STAGES)}.")
]
RequiredStage = Annotated[
    Stage, typer.Option("--stage", parser=stage_named, metavar="STAGE", help=f"One of {', '.join(STAGES)}.")
]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="Go on as things change, until JOB ends.")]
For = Annotated[
    int | None,
    typer.Option("--for", parser=length, metavar="DURATION", help="How long: 30m, 2h, 1d. Default: until ended."),
]
Prometheus = Annotated[
    Place | None,
    typer.Option(
        parser=_place,
        metavar="PLACE",
        help="Where metrics are read: a URL, or namespace/service:port. Default: where the operator does.",
    ),
]
