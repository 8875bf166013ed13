"""`steelyard rehearse`: short runs of growing size before the real one, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.api.names import JOB_KIND
from steelyard.cli import codes
from steelyard.cli.ages import length
from steelyard.cli.codes import Exit
from steelyard.cli.output import Format, Output, complain, note, write
from steelyard.cli.session import Session

if TYPE_CHECKING:
    from steelyard.api import AgenticRLJob
    from steelyard.cli.rehearsing.record import Record

TIMEOUT = 1800


def rehearse(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="Manifest with one AgenticRLJob.")],
    timeout: Annotated[
        int, typer.Option(parser=length, metavar="TIME", help="How long one run may take. Default: 30m.")
    ] = TIMEOUT,
    output: Output = Format.TABLE,
) -> Exit:
    """Run a job small before it runs: one task, a few at once, all stages.

    Each is a short real job made from JOB.yaml, with its model, tasks and code, and is removed afterwards; nothing
    moves while it runs. The table at the end shows where trajectories spend their time at each size. Ctrl-C removes
    what runs; what a killed rehearsal left, the next one removes. Exit codes: 0 all ran, 3 one did not come to its end,
    or the job is being rehearsed.
    """
    from steelyard.cli.rehearsing.climb import Climb, Rehearsed, terminable
    from steelyard.cli.rehearsing.ladder import ladder

    manifest, job = _read(file)
    namespace = session.asked_namespace or job.metadata.namespace or session.namespace
    climb = Climb(session, namespace, _user(session), timeout)
    rungs = ladder(manifest["spec"], job, namespace)
    try:
        climb.clear(job.metadata.name)
        climb.try_out(rungs)
    except Rehearsed as error:
        complain(codes.REHEARSED, job.metadata.name, str(error))
        return codes.REHEARSED.exit
    records: list[Record] = []
    try:
        with terminable():
            for rung in rungs:
                records.append(climb.run(rung))
                if records[-1].failure:
                    break
    finally:
        _show(records, output)
    return Exit.NEGATIVE if records[-1].failure else Exit.OK


def _read(file: Path) -> tuple[dict[str, Any], AgenticRLJob]:
    """The one job in a file of manifests, as it is written and parsed."""
    import yaml
    from pydantic import ValidationError

    from steelyard.api import AgenticRLJob, explain

    try:
        found = [one for one in yaml.safe_load_all(file.read_text("utf-8")) if isinstance(one, dict)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    jobs = [one for one in found if one.get("kind") == JOB_KIND]
    if len(jobs) != 1:
        raise typer.BadParameter(f"{file}: holds {len(jobs)} {JOB_KIND}s, want one")
    if len(found) > 1:
        note(f"only the {JOB_KIND} of {file} is made: apply the rest of it first")
    manifest = {key: value for key, value in jobs[0].items() if key != "status"}
    try:
        return manifest, AgenticRLJob.model_validate(manifest)
    except ValidationError as error:
        raise typer.BadParameter(f"{file}: {explain(error)}") from error


def _user(session: Session) -> str:
    from steelyard.cluster.errors import ClusterError

    try:
        return session.kubectl.user
    except ClusterError:
        return "somebody"


def _show(records: Sequence[Record], output: Format) -> None:
    """What was recorded, also when the rehearsal was interrupted."""
    from steelyard.cli.rehearsing.record import as_item, compared, told

    if output in (Format.JSON, Format.YAML):
        write("RehearsalList", [as_item(one) for one in records], output)
    elif output is Format.NAME:
        typer.echo("\n".join(one.job for one in records))
    elif records:
        typer.echo("\n".join([*compared(records), "", *told(records)]).rstrip())
