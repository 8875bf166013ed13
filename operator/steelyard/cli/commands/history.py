"""`steelyard history`: what was decided about a job, what became of it, and who changed what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from steelyard.api.names import LABEL_JOB
from steelyard.cli import codes, history_entries
from steelyard.cli.ages import clock, moment
from steelyard.cli.codes import Exit
from steelyard.cli.history_entries import Entry
from steelyard.cli.options import Job, StageOption
from steelyard.cli.output import Column, DocumentOutput, Format, NoHeaders, complain, note, table, write
from steelyard.cli.session import Session, told
from steelyard.cluster import kinds
from steelyard.cluster.following import Following, Watched

COLUMNS = tuple(Column(name) for name in ("TIME", "WHAT", "WHO", "SUBJECT", "TEXT"))


def history(
    session: Session,
    job: Job,
    since: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="From then on: a time, or 2h, so long ago."),
    ] = None,
    stage: StageOption = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="So many of the latest; 0 for all.")] = 20,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as things happen.")] = False,
    output: DocumentOutput = Format.TABLE,
    no_headers: NoHeaders = False,
) -> Exit:
    """Show what was decided about a job, what became of it, and who changed what; the latest last.

    Exit codes: 0 fine; 6 forbidden or no such job.

    \b
    $ steelyard history calculator --since 2h --stage sampler
    $ steelyard history calculator -f
    """
    about = f"{session.namespace}/{job}"
    if follow and output.for_programs:
        raise typer.BadParameter(f"-o {output} shows one moment", param_hint="--follow")
    of_job = f"involvedObject.kind={kinds.JOB.name},involvedObject.name={job}"
    watched = [
        Watched(kinds.JOB, session.namespace, fields=f"metadata.name={job}"),
        Watched(kinds.REVISION, session.namespace, f"{LABEL_JOB}={job}", needed=False),
        Watched(kinds.EVENT, session.namespace, fields=of_job, needed=False),
    ]
    told_already: set[object] = set()
    with Following(session.kubectl, watched) as following:
        for kind, error in following.lacking.items():
            complain(codes.PARTLY_UNREADABLE, about, f"{kind.plural}: {told(error)}")
        while True:
            jobs = following.objects(kinds.JOB)
            if not jobs:
                raise session.no_job(job)
            found = history_entries.entries(jobs[0], following.objects(kinds.REVISION), following.objects(kinds.EVENT))
            shown = history_entries.chosen(found, since, stage, limit)
            if output.for_programs:
                write("JobHistory", [history_entries.document(one) for one in shown], output)
            else:
                _print([one for one in shown if one.key not in told_already], headers=not (no_headers or told_already))
            if not follow:
                if not shown:
                    note(f"nothing that is known happened to {about}{' in this time' if since else ' yet'}")
                return Exit.OK
            told_already |= {one.key for one in shown} | {"begun"}
            following.wait()


def _print(entries: Sequence[Entry], *, headers: bool) -> None:
    if not entries and not headers:
        return
    rows = [[clock(one.at), one.kind, one.actor, one.subject, one.text] for one in entries]
    for line in table(COLUMNS, rows, headers=headers):
        typer.echo(line)
