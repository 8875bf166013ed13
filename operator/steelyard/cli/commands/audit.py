"""`steelyard audit`: where a job's time and GPUs went, what holds it back, what reallocation is worth."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
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
from steelyard.cli.ages import instant_option, seconds_option
from steelyard.cli.codes import Exit
from steelyard.cli.output import complain, document, note
from steelyard.cli.session import Prometheus, Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError, Forbidden, NotFound
from steelyard.cluster.prometheus_access import NoPrometheus, opened, operators_place, place_of
from steelyard.metrics.answers import Unavailable
from steelyard.metrics.history import History
from steelyard.twin.recording import Malformed


def audit(
    session: Session,
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Name of an AgenticRLJob; it may be gone.")] = None,
    span: Annotated[str, typer.Option("--for", metavar="DURATION", help="How far back: 90s, 1h, 1d.")] = "1h",
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End: a time, or a duration before now. Default: now.")
    ] = None,
    gpu_price: Annotated[float | None, typer.Option(min=0, help="What a GPU costs an hour, in any currency.")] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="table|json|FILE.html", help="How, or into which file.")
    ] = "table",
    recording: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Audit what `-o json` wrote earlier, without a cluster.")
    ] = None,
    prometheus: Prometheus = None,
) -> int:
    """Audit a stretch of a job's time: where it went, what holds it back, what moving GPUs is worth.

    Exit codes: 0 done, 2 bad input, 6 nothing is known of such a job.
    """
    if output not in ("table", "json") and not output.endswith(".html"):
        raise typer.BadParameter("table, json, or a file that ends in .html", param_hint="-o")
    if (job is None) == (recording is None):
        raise typer.BadParameter("name a JOB, or a file with --recording")
    if recording is not None:
        record = _recorded(recording)
    else:
        assert job is not None
        end = instant_option(until, "--until", datetime.now(UTC)).timestamp() if until else time.time()
        try:
            record = asyncio.run(_read(session, job, end - seconds_option(span, "--for"), end, prometheus))
        except (NoPrometheus, Unavailable) as problem:
            complain(codes.NO_PROMETHEUS, job, str(problem))
            return codes.NO_PROMETHEUS.exit
        if record.job is None and not record.totals:
            complain(codes.NOT_FOUND, job, "; ".join(record.missing))
            return Exit.DENIED
    for words in record.missing:
        complain(codes.PARTLY_UNREADABLE, record.name, words)
    _write(audited(record, gpu_price), output)
    return Exit.OK


def _recorded(file: Path) -> Record:
    try:
        return read(file.read_bytes())
    except (Malformed, OSError) as problem:
        raise typer.BadParameter(str(problem), param_hint="--recording") from problem


async def _read(session: Session, name: str, start: float, end: float, prometheus: str | None) -> Record:
    """The job and its ledger from the cluster, the rest from Prometheus; a job that is gone has only the latter."""
    kubectl, namespace = session.kubectl, session.namespace
    place = place_of(prometheus) if prometheus else operators_place(kubectl)
    job: AgenticRLJob | None = None
    revisions: tuple[AllocationRevision, ...] = ()
    unread: list[str] = []
    try:
        job = AgenticRLJob.from_cluster(session.job(name))
        found = kubectl.objects(kinds.REVISION, namespace, selector=f"{LABEL_JOB}={name}")
        revisions = tuple(map(AllocationRevision.from_cluster, found))
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
    if output == "table":
        typer.echo(text(report), nl=False)
        return
    written = json.dumps(document("Audit", [figures(report)]), separators=(",", ":"), ensure_ascii=False)
    if output == "json":
        typer.echo(written)
        return
    Path(output).write_text(page(report, written), encoding="utf-8")
    note(f"{output}: {Path(output).stat().st_size / 1e6:.1f} MB; open it in a browser")
