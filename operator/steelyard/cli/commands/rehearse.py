"""`steelyard rehearse`: short runs of growing size before the real one, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.api.names import JOB_KIND
from steelyard.cli import codes
from steelyard.cli.ages import length
from steelyard.cli.codes import Exit
from steelyard.cli.manifest import read_job
from steelyard.cli.output import Format, ObjectOutput, complain, named, note, show
from steelyard.cli.session import Session
from steelyard.cluster import kinds

if TYPE_CHECKING:
    from steelyard.cli.rehearsing.record import Record


def rehearse(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Manifest with one AgenticRLJob; - is stdin.")],
    timeout: Annotated[
        int,
        typer.Option(parser=length, metavar="DURATION", show_default=False, help="Of one run at most. Default: 30m."),
    ] = 1800,
    output: ObjectOutput = Format.TABLE,
) -> Exit:
    """Run a job small before it runs: one task, a few at once, all stages.

    Each is a short real job made from that of FILE, with its model, tasks and code, and is removed afterwards; nothing
    moves while it runs. The table at the end shows where trajectories spend their time at each size. Ctrl-C removes
    what runs; what a killed rehearsal left, the next one removes. Exit codes: 0 all ran, 2 no job can be read from
    FILE, 3 one did not come to its end, or the job breaks a rule or is being rehearsed.

    \b
    $ steelyard rehearse job.yaml
    """
    from steelyard.cli.rehearsing.climb import Climb, Rehearsed
    from steelyard.cli.rehearsing.ladder import ladder

    manifest, job, others = read_job(file)
    if others:
        note(f"only the {JOB_KIND} of {file} is made: apply the rest of it first")
    namespace = session.asked_namespace or job.metadata.namespace or session.namespace
    climb = Climb(session, namespace, session.user, timeout)
    rungs = ladder(manifest["spec"], job, namespace)
    records: list[Record] = []
    try:
        climb.clear(job.metadata.name)
        climb.try_out(rungs)
        try:
            for rung in rungs:
                records.append(climb.run(rung))
                if records[-1].failure:
                    break
        finally:
            _show(records, output)
    except Rehearsed as error:
        complain(codes.REHEARSED, f"{namespace}/{job.metadata.name}", str(error))
        return codes.REHEARSED.exit
    return Exit.NEGATIVE if records[-1].failure else Exit.OK


def _show(records: Sequence[Record], output: Format) -> None:
    """What was recorded, also when the rehearsal was interrupted."""
    from steelyard.cli.rehearsing.record import as_item, compared, told

    if output is Format.NAME:
        lines = [named(kinds.JOB, one.job) for one in records]
    else:
        said = told(records)
        lines = [*compared(records), *([""] if said else []), *said] if records else []
    show("RehearsalList", [as_item(one) for one in records], lines, output)
