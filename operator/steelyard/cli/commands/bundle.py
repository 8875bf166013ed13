"""`steelyard bundle`: all that somebody needs who helps from afar, in one file, without secrets."""

from __future__ import annotations

import io
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import codes
from steelyard.cli.bundling import collect
from steelyard.cli.bundling.collect import Bundle, Part
from steelyard.cli.codes import Exit
from steelyard.cli.options import Prometheus, job_named
from steelyard.cli.output import complain, note
from steelyard.cli.session import Session
from steelyard.cluster.errors import ClusterError, Forbidden
from steelyard.cluster.kinds import Object
from steelyard.cluster.places import Place


def bundle(
    session: Session,
    job: Annotated[
        str | None, typer.Argument(parser=job_named, metavar="JOB", help="One job. Default: all of the namespace.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.tar.gz", help="Default: a name with the time.")
    ] = None,
    lines: Annotated[int, typer.Option(min=1, metavar="N", help="Newest lines of every log.")] = 2000,
    prometheus: Prometheus = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would hold, and read no more than names.")
    ] = False,
) -> Exit:
    """Collect a job's objects, events, metrics and logs in one file, without secrets.

    Secrets are never read; what looks like one in objects, configuration or logs is withheld. manifest.yaml in the file
    says what is missing and what was withheld: read it, and the file, before you pass it on. The name of the file goes
    to stdout. Exit codes: 0 all is there, 2 the file cannot be written, 4 some parts could not be read, 6 no such
    job.

    \b
    $ steelyard bundle calculator --dry-run
    $ steelyard bundle calculator -o bundle.tar.gz
    """
    now = datetime.now(UTC)
    if output and not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}", param_hint="-o")
    parts = collect.object_parts(session, job)
    if dry_run:
        return _list(session, parts, lines)
    collected = _collect(session, parts, lines, prometheus)
    asked = {"time": f"{now:%Y-%m-%dT%H:%M:%SZ}", "namespace": session.namespace, "job": job or "all"}
    collected.files[collect.MANIFEST] = collected.manifest(asked)
    name = f"steelyard-{job or session.namespace}-{now:%Y%m%dT%H%M%SZ}"
    target = output or Path(f"{name}.tar.gz")
    try:
        _write(collected, name, target, now)
    except OSError as error:
        raise typer.BadParameter(f"{target}: {error.strerror}", param_hint="-o") from error
    withheld = sum(collected.redactor.withheld.values())
    note(f"{len(collected.files)} files, {target.stat().st_size / 1e6:.1f} MB, {withheld} values withheld")
    for file in collected.gone:
        note(f"{file}: its pod went meanwhile")
    for file, why in collected.missing.items():
        complain(codes.PARTLY_UNREADABLE, file, why)
    typer.echo(target)
    return Exit.WARNINGS if collected.missing else Exit.OK


def _list(session: Session, parts: list[Part], lines: int) -> Exit:
    """Names of files, each with what it holds; only pods are read, for the names of their logs."""
    pods = next(part for part in parts if part.file == "pods.yaml").read()
    for part in parts:
        typer.echo(f"{part.file:<40} {part.what}")
    for part in collect.log_parts(session.kubectl, pods, lines):
        typer.echo(f"{part.file:<40} its newest {lines} lines")
    typer.echo(f"{collect.MANIFEST:<40} what is missing, and what was withheld where")
    return Exit.OK


def _collect(session: Session, parts: list[Part], lines: int, prometheus: Place | None) -> Bundle:
    """Objects first: the redactor learns from them what to look for in the logs."""
    from steelyard.cli.bundling.measured import measured

    collected = Bundle()
    note("reading objects ...")
    found = dict(
        zip((part.file for part in parts), session.kubectl.at_once([part.read for part in parts]), strict=True)
    )
    jobs = found["jobs.yaml"]
    if isinstance(jobs, ClusterError) and not isinstance(jobs, Forbidden):
        raise jobs
    mine = [obj for file, objects in found.items() if file != "events.yaml" for obj in _objects(objects)]
    found["events.yaml"] = _about(found["events.yaml"], mine)
    for part in parts:
        collected.add(part, found[part.file])
    note("reading metrics ...")
    for one in _objects(jobs):
        measured(collected, session, str(one["metadata"]["name"]), prometheus)
    note("reading logs ...")
    pods = _objects(found["pods.yaml"])
    operators = session.kubectl.at_once([lambda: collect.operator_pods(session.kubectl)])[0]
    if isinstance(operators, ClusterError):
        collected.missing[f"{collect.LOGS}operator"] = str(operators)
    logs = list(collect.log_parts(session.kubectl, [*pods, *_objects(operators)], lines))
    for part, text in zip(logs, session.kubectl.at_once([part.read for part in logs]), strict=True):
        collected.add(part, text)
    return collected


def _objects(found: object) -> list[Object]:
    return found if isinstance(found, list) else []


def _about(events: object, mine: list[Object]) -> object:
    return collect.about(events, mine) if isinstance(events, list) else events


def _write(collected: Bundle, folder: str, target: Path, now: datetime) -> None:
    """The file, for its owner alone; it appears whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for file, text in sorted(collected.files.items()):
                content = text.encode()
                entry = tarfile.TarInfo(f"{folder}/{file}")
                entry.size, entry.mtime, entry.mode = len(content), now.timestamp(), 0o600
                archive.addfile(entry, io.BytesIO(content))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
