"""`steelyard trace`: where a trajectory's time went, from its dispatch to the step that trained it."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from steelyard.api.names import LABEL_JOB
from steelyard.cli import codes
from steelyard.cli.ages import duration, length
from steelyard.cli.codes import Exit
from steelyard.cli.options import Job
from steelyard.cli.output import Format, NoHeaders, ObjectOutput, complain, note, write
from steelyard.cli.session import Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError, NotFound

MOST = 50_000
"""Messages to read at most; some 100 MB of spans."""
_ID = re.compile(r"\d{1,9}(/\d{1,9}){0,2}")


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no trajectory: want group, group/k or group/k/attempt, such as 12/3/0")
    return text


def trace(
    job: Job,
    session: Session,
    trajectory: Annotated[
        str | None,
        typer.Argument(parser=_id, metavar="TRAJECTORY", help="12/3/0 (group, k, attempt), 12/3, or the group 12."),
    ] = None,
    slowest: Annotated[int, typer.Option(min=1, metavar="N", help="So many of the slowest, when none is named.")] = 10,
    since: Annotated[
        int,
        typer.Option(
            parser=length, metavar="DURATION", show_default=False, help="How far back when none is named. Default: 10m."
        ),
    ] = 600,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them all for ui.perfetto.dev, not only the slowest.")
    ] = None,
    output: ObjectOutput = Format.TABLE,
    no_headers: NoHeaders = False,
) -> Exit:
    """Show where trajectories spent their time: who worked, who waited for whom.

    Without TRAJECTORY it lists the slowest of late. The spans are on the job's own bus, which is
    reached by `kubectl port-forward`: you need the right to create pods/portforward. Exit codes: 0 shown, 6 nothing
    found.

    \b
    $ steelyard trace calculator --since 1h --slowest 5
    $ steelyard trace calculator 12/3/0
    """
    from steelyard.children.bus import CLIENT_PORT
    from steelyard.children.common import bus_name
    from steelyard.cli.tracing import perfetto as events
    from steelyard.cli.tracing import tree
    from steelyard.cli.tracing.story import slowest as slowest_of
    from steelyard.cli.tracing.story import stories
    from steelyard_workers.spans import Unreadable, read

    about = f"{session.namespace}/{job}"
    from_ = None if trajectory else datetime.now(UTC) - timedelta(seconds=since)
    try:
        with session.kubectl.forwarded(session.namespace, f"{bus_name(job)}-0", CLIENT_PORT) as port:
            window = asyncio.run(read(f"nats://127.0.0.1:{port}", job, trajectory, from_, MOST))
    except NotFound:
        session.job(job)  # raises when it is the job that is not there
        complain(codes.NO_SPANS, about, "its bus does not run, as of a job that is suspended or has ended")
        return codes.NO_SPANS.exit
    except Unreadable as error:
        complain(codes.NO_SPANS, about, str(error))
        return codes.NO_SPANS.exit
    if window.left_out:
        note(f"only the first {MOST} messages were read; {window.left_out} newer ones were not: shorten --since")
    told = stories(window.spans)
    if not told:
        where = f"trajectory {trajectory}" if trajectory else f"the last {duration(since)}"
        complain(codes.NO_SPANS, about, f"no spans of {where}; spec.tracing says what is traced and for how long")
        return codes.NO_SPANS.exit
    if perfetto is not None:
        try:
            perfetto.write_text(json.dumps(events.trace_events(told, job)))
        except OSError as error:
            raise typer.BadParameter(f"{perfetto}: {error.strerror}", param_hint="--perfetto") from error
        note(f"{len(told)} trajectories in {perfetto}: open it in ui.perfetto.dev")
    shown = told if trajectory else slowest_of(told, slowest)
    if output.for_programs:
        write("TrajectoryList", [tree.as_item(story) for story in shown], output)
    elif output is Format.NAME:
        typer.echo("\n".join(story.id for story in shown))
    elif trajectory and len(shown) <= MANY:
        pods = _pods(session, job)
        typer.echo("\n\n".join("\n".join(tree.tree(story, pods)) for story in shown))
    else:
        typer.echo("\n".join(tree.rows(shown, headers=not no_headers)))
        note(f"{len(told)} trajectories; one of them: steelyard trace {job} {shown[0].id} -n {session.namespace}")
    return Exit.OK


MANY = 3
"""Attempts of one trajectory are shown as trees, a whole group as rows."""


def _pods(session: Session, job: str) -> dict[str, str]:
    """IP -> pod, for the addresses of samplers; empty without the right to list pods."""
    try:
        pods = session.kubectl.objects(kinds.POD, session.namespace, selector=f"{LABEL_JOB}={job}")
    except ClusterError:
        return {}
    return {str(pod["status"].get("podIP")): str(pod["metadata"]["name"]) for pod in pods if "status" in pod}
