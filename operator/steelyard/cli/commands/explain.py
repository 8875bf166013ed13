"""`steelyard explain`: why a job has the allocation it has, by the same rules that decided it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from steelyard.cli import codes
from steelyard.cli.ages import clock, moment
from steelyard.cli.codes import Exit
from steelyard.cli.options import Job, Prometheus, StageOption
from steelyard.cli.output import DocumentOutput, Format, complain, note, show
from steelyard.cli.session import Session


def explain(
    session: Session,
    job: Job,
    stage: StageOption = None,
    revision: Annotated[
        str | None, typer.Option(metavar="N", help="A decision of the past: the number or name of a revision.")
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="TIME", help="What was in force then: a time, or 2h, so long ago."),
    ] = None,
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Explain a decision: inputs, target, each limiter, outcome, and what would change it.

    The balance's own rules are asked again with what you may read now. Without metrics the operator's last words and
    the ledger still tell what was decided from what. Exit codes: 0 explained; 6 forbidden or no such job or revision.

    \b
    $ steelyard explain calculator
    $ steelyard explain calculator --at 2h
    """
    from steelyard.cli import explain_now, explain_past, explain_text
    from steelyard.cli.looking import look_at_sound

    if revision is not None and at is not None:
        raise typer.BadParameter("names a decision that --revision names too: give one of them", param_hint="--at")
    about = f"{session.namespace}/{job}"
    looked, sound = look_at_sound(session, job)
    if revision is not None or at is not None:
        past = explain_past.explained(looked, sound, revision, at)
        if past is None:
            which = f"revision {revision}" if at is None else f"revision in force at {clock(at)}"
            complain(codes.NOT_FOUND, about, f"the ledger has no {which}; `steelyard history {job}` lists what it has")
            return Exit.DENIED
        show("PastDecision", [explain_past.document(past)], explain_text.of_past(past), output)
        return Exit.OK
    found = explain_now.explained(session, looked, sound, prometheus)
    if found.blind:
        complain(codes.NO_PROMETHEUS, about, found.blind)
        note("Without metrics the rules cannot be asked again; what follows is what the operator and its ledger say.")
    show("Explanation", [explain_now.document(found)], explain_text.of_now(found, stage), output)
    return Exit.OK
