"""`steelyard diff`: what applying a job's file would come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import codes
from steelyard.cli.codes import Exit
from steelyard.cli.manifest import read_job
from steelyard.cli.options import Prometheus
from steelyard.cli.output import DocumentOutput, Format, complain, note, show
from steelyard.cli.session import Session


def diff(
    session: Session,
    file: Annotated[Path, typer.Option("-f", "--file", metavar="FILE", help="The job as it would be; - is stdin.")],
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 4 when something would be another one.")
    ] = False,
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Say what applying a job's file would come to, and write nothing.

    Fields that change, the operator's next decision, replicas and GPUs, whose pods restart, objects that come and go.
    The API server is asked in a dry run, the operator's rules on what is measured now. Exit codes: 0; 1 the API server
    refuses it; 2 no job can be read from FILE; 3 the job breaks a rule; 4 see --exit-code; 6 forbidden.

    \b
    $ steelyard diff -f job.yaml
    $ steelyard diff -f job.yaml --exit-code -o json
    """
    from steelyard.cli.differing.asking import applied, decided
    from steelyard.cli.differing.outcome import outcome
    from steelyard.cli.differing.words import document, lines
    from steelyard.cli.looking import scene

    manifest, job, others = read_job(file)
    if job.metadata.namespace and not session.asked_namespace:
        session = replace(session, asked_namespace=job.metadata.namespace)
    found = applied(session, {**manifest, "metadata": {**manifest["metadata"], "namespace": session.namespace}})
    about = f"{session.namespace}/{job.metadata.name}"
    for missing in found.looked.lacking:
        complain(codes.PARTLY_UNREADABLE, about, missing)
    if found.looked.job is None:
        complain(codes.BROKEN_SPEC, about, found.looked.view.job.broken)
        return codes.BROKEN_SPEC.exit
    if others:
        note(f"{others} other object{'' if others == 1 else 's'} of the file not looked at")
    at = scene(found.looked, found.looked.job)
    decision = decided(session, prometheus, at)
    result = outcome(found, at, decision)
    show("JobDiff", [document(result, decision.blind)], lines(result, decision.blind), output)
    return Exit.WARNINGS if exit_code and result.differs else Exit.OK
