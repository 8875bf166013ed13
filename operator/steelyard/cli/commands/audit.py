"""`steelyard audit`: where a job's time and GPUs went, what holds it back, what reallocation is worth."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from steelyard.api import AgenticRLJob, AllocationRevision
from steelyard.api.names import LABEL_JOB
from steelyard.audit.document import figures
from steelyard.audit.page import page
from steelyard.audit.record import Record, read
from steelyard.audit.report import Audit
from steelyard.audit.report import audit as audited
from steelyard.audit.text import text
from steelyard.cli import audit_record, codes
from steelyard.cli.ages import length, moment, now
from steelyard.cli.codes import Exit
from steelyard.cli.options import Prometheus, job_named
from steelyard.cli.output import Format, PageOutput, complain, document, write_page
from steelyard.cli.session import Session
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import ClusterError, Forbidden, NotFound
from steelyard.cluster.places import NoPrometheus, Place
from steelyard.cluster.prometheus_access import opened, operators_place
from steelyard.metrics.answers import Unavailable
from steelyard.metrics.history import History
from steelyard.twin.recording import Malformed


def audit(
    session: Session,
    job: Annotated[
        str | None, typer.Argument(parser=job_named, metavar="JOB", help="Name of an AgenticRLJob; it may be gone.")
    ] = None,
    span: Annotated[
        int,
        typer.Option(
            "--for", parser=length, metavar="DURATION", show_default=False, help="How far back: 90s, 1d. Default: 1h."
        ),
    ] = 3600,
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Its end: a time, or 2h, so long ago.")
    ] = None,
    gpu_price: Annotated[
        float | None, typer.Option(min=0, metavar="PRICE", help="What a GPU costs an hour, in any currency.")
    ] = None,
    output: PageOutput = Format.TABLE,
    recording: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Audit what `-o json` wrote earlier, without a cluster.")
    ] = None,
    prometheus: Prometheus = None,
) -> int:
    """Audit a stretch of a job's time: where it went, what holds it back, what moving GPUs is worth.

    Exit codes: 0 done, 1 Prometheus cannot be read, 2 bad input, 6 nothing is known of such a job.

    \b
    $ steelyard audit calculator --for 1d --gpu-price 2.5 -o report.html
    $ steelyard audit calculator -o json > audit.json
    """
    if (job is None) == (recording is None):
        raise typer.BadParameter("name a JOB, or a file with --recording")
    if recording is not None:
        record = _recorded(recording)
    else:
        assert job is not None
        end = (until or now()).timestamp()
        try:
            record = asyncio.run(_read(session, job, end - span, end, prometheus))
        except (NoPrometheus, Unavailable) as problem:
            complain(codes.NO_PROMETHEUS, f"{session.namespace}/{job}", str(problem))
            return codes.NO_PROMETHEUS.exit
        if record.job is None and not record.totals:
            complain(codes.NOT_FOUND, f"{session.namespace}/{job}", "; ".join(record.missing))
            return Exit.DENIED
    for words in record.missing:
        complain(codes.PARTLY_UNREADABLE, f"{record.namespace}/{record.name}", words)
    _write(audited(record, gpu_price), output)
    return Exit.OK


def _recorded(file: Path) -> Record:
    try:
        return read(file.read_bytes())
    except OSError as problem:
        raise typer.BadParameter(f"{file}: {problem.strerror}", param_hint="--recording") from problem
    except Malformed as problem:
        raise typer.BadParameter(f"{file}: {problem}", param_hint="--recording") from problem


async def _read(session: Session, name: str, start: float, end: float, prometheus: Place | None) -> Record:
    """The job and its ledger from the cluster, the rest from Prometheus; a job that is gone has only the latter."""
    kubectl, namespace = session.kubectl, session.namespace
    place = prometheus or operators_place(kubectl)
    job: AgenticRLJob | None = None
    revisions: list[AllocationRevision] = []
    unread: list[str] = []
    try:
        stored = records.job(session.job(name))
        job = stored.resource
        unread += [f"the job's spec breaks a rule: {stored.broken}"] if job is None else []
        found = kubectl.objects(kinds.REVISION, namespace, selector=f"{LABEL_JOB}={name}")
        revisions, passed_over = records.ledger(found)
        unread += passed_over
    except (NotFound, Forbidden) as problem:
        unread.append(str(problem))
    except ClusterError as problem:
        if prometheus is None:
            raise
        unread.append(str(problem))
    async with opened(place, kubectl) as client:
        record = await audit_record.read(History(client), name, namespace, start, end, job, revisions)
    return replace(record, missing=(*unread, *record.missing))


def _write(report: Audit, output: str) -> None:
    if output == Format.TABLE:
        typer.echo(text(report), nl=False)
        return
    written = json.dumps(document("Audit", [figures(report)]), separators=(",", ":"), ensure_ascii=False)
    if output == Format.JSON:
        typer.echo(written)
    else:
        write_page(page(report, written), output)
