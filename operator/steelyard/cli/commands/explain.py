"""`steelyard explain`: why a job has the allocation it has, by the same rules that decided it."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.api.names import Stage
from steelyard.cli import codes
from steelyard.cli.ages import instant_option
from steelyard.cli.ages import now as clock
from steelyard.cli.codes import Exit
from steelyard.cli.output import DocumentOutput, Format, complain, note, write
from steelyard.cli.session import Job, Prometheus, Session, StageName


def explain(
    session: Session,
    job: Job,
    stage: StageName = None,
    revision: Annotated[
        str | None, typer.Option(metavar="N", help="A decision of the past: the number or name of a revision.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The revision that was in force then: 2h ago, or a time.")
    ] = None,
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Explain a decision: inputs, target, each limiter, outcome, and what would change it.

    The balance's own rules are asked again with what you may read now. Without metrics the operator's last words and
    the ledger still tell what was decided from what. Exit codes: 0 explained; 6 forbidden or no such job or revision.
    """
    from steelyard.cli import explain_now, explain_past, explain_text
    from steelyard.cli.looking import look

    about = f"{session.namespace}/{job}"
    looked = look(session, job)
    for missing in looked.lacking:
        complain(codes.PARTLY_UNREADABLE, about, missing)
    if looked.job is None:
        complain(
            codes.BROKEN_SPEC, about, f"the spec breaks a rule and everything runs as before: {looked.view.job.broken}"
        )
        return Exit.NEGATIVE
    if revision is not None or at is not None:
        moment = instant_option(at, "--at", clock()) if at else None
        past = explain_past.explained(looked, looked.job, revision, moment)
        if past is None:
            which = f"revision {revision}" if revision else f"revision in force at {at}"
            complain(codes.NOT_FOUND, about, f"the ledger has no {which}; `steelyard history {job}` lists what it has")
            return Exit.DENIED
        _print(output, "PastDecision", explain_past.document(past), explain_text.of_past(past))
        return Exit.OK
    found = explain_now.explained(session, looked, looked.job, prometheus)
    if found.blind:
        complain(codes.NO_PROMETHEUS, about, found.blind)
        note("Without metrics the rules cannot be asked again; what follows is what the operator and its ledger say.")
    only = Stage.of_field(stage) if stage else None
    _print(output, "Explanation", explain_now.document(found), explain_text.of_now(found, only))
    return Exit.OK


def _print(output: Format, kind: str, document: dict[str, object], lines: list[str]) -> None:
    if output in (Format.JSON, Format.YAML):
        write(kind, [document], output)
    else:
        for line in lines:
            typer.echo(line)
