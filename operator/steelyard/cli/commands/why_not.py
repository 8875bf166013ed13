"""`steelyard why-not`: what keeps a stage from having so many replicas, and the threshold to cross."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.api.names import Stage
from steelyard.cli import codes
from steelyard.cli.codes import Exit
from steelyard.cli.output import DocumentOutput, Format, complain, write
from steelyard.cli.session import AskedStage, Job, Prometheus, Session

if TYPE_CHECKING:
    from steelyard.balance.why_not import Answer


def why_not(
    session: Session,
    job: Job,
    stage: AskedStage,
    to: Annotated[int, typer.Option("--to", min=0, max=1000, help="Replicas that you expect.")],
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Say what keeps a stage from having N replicas, and the threshold to cross.

    Exit codes: 0 nothing stands in the way; 3 something does; 6 forbidden or no such job.
    """
    from steelyard.balance import why_not as rules
    from steelyard.cli.explain_text import rules_lines
    from steelyard.cli.looking import Measured, look, measure, scene

    about = f"{session.namespace}/{job}"
    looked = look(session, job)
    for missing in looked.lacking:
        complain(codes.PARTLY_UNREADABLE, about, missing)
    if looked.job is None:
        complain(codes.BROKEN_SPEC, about, f"everything runs as before: {looked.view.job.broken}")
        return Exit.NEGATIVE
    at = scene(looked, looked.job)
    if at.resting:
        typer.echo(at.resting.decision.reason)
        return Exit.NEGATIVE
    measured = measure(session, prometheus, at)
    if not isinstance(measured, Measured):
        complain(codes.NO_PROMETHEUS, about, f"{measured}; without metrics the rules cannot be asked")
        return Exit.UNEXPECTED
    of = Stage.of_field(stage)
    answer = rules.why_not(at.seen, measured.rates, measured.now, of, to)
    if output in (Format.JSON, Format.YAML):
        write("WhyNot", [_document(about, of, to, answer)], output)
    else:
        typer.echo(_sentence(of, to, answer))
        for line in rules_lines(answer.rules):
            typer.echo(f"  {line}")
    return Exit.NEGATIVE if answer.objection else Exit.OK


def _sentence(stage: Stage, wanted: int, answer: Answer) -> str:
    objection = answer.objection
    has = f"{stage.field} has {answer.current} replica{'' if answer.current == 1 else 's'}"
    if answer.current == wanted:
        return f"{has}."
    if objection is None:
        return f"Nothing keeps {stage.field} from {wanted} replicas: {answer.plan.decision.reason}"
    why = f"{objection.kind}: {objection.reason}"
    return f"{has} and not {wanted}: {why}.\nIt takes {objection.remedy}."


def _document(about: str, stage: Stage, wanted: int, answer: Answer) -> dict[str, Any]:
    from steelyard.cli.explain_now import allocation, rule

    namespace, _, name = about.partition("/")
    return {
        "namespace": namespace,
        "name": name,
        "stage": stage.field,
        "replicas": answer.current,
        "wanted": wanted,
        "objection": answer.objection and rule(answer.objection),
        "rules": [rule(one) for one in answer.rules],
        "allocation": answer.after and allocation(answer.after),
    }
