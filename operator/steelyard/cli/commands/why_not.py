"""`steelyard why-not`: what keeps a stage from having so many replicas, and the threshold to cross."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.api.names import Stage
from steelyard.cli import codes
from steelyard.cli.codes import Exit
from steelyard.cli.options import Job, Prometheus, RequiredStage
from steelyard.cli.output import DocumentOutput, Format, complain, show
from steelyard.cli.session import Session

if TYPE_CHECKING:
    from steelyard.api import AgenticRLJob
    from steelyard.balance.types import Plan, Seen
    from steelyard.balance.why_not import Answer


def why_not(
    session: Session,
    job: Job,
    stage: RequiredStage,
    to: Annotated[int, typer.Option("--to", min=0, max=1000, metavar="N", help="Replicas that you expect.")],
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Say what keeps a stage from having N replicas, and the threshold to cross.

    Exit codes: 0 nothing stands in the way; 1 there are no metrics, without which the rules cannot be asked; 3
    something does; 6 forbidden or no such job.

    \b
    $ steelyard why-not calculator --stage sampler --to 4
    """
    from steelyard.balance.why_not import why_not as asked
    from steelyard.cli.explain_text import rules_lines
    from steelyard.cli.looking import Measured, look_at_sound, measure, scene

    looked, sound = look_at_sound(session, job)
    at = scene(looked, sound)
    if at.resting:
        answer = _of_rest(at.seen, at.resting, stage)
    else:
        measured = measure(session, prometheus, at)
        if not isinstance(measured, Measured):
            said = f"{measured}; without metrics the rules cannot be asked"
            complain(codes.NO_PROMETHEUS, f"{session.namespace}/{job}", said)
            return Exit.UNEXPECTED
        answer = asked(at.seen, measured.rates, measured.now, stage, to)
    lines = [*_sentences(stage, to, answer), *(f"  {line}" for line in rules_lines(answer.rules))]
    show("WhyNot", [_document(sound, stage, to, answer)], lines, output)
    return Exit.NEGATIVE if answer.objection and answer.current != to else Exit.OK


def _of_rest(seen: Seen, rest: Plan, stage: Stage) -> Answer:
    """Of a job that is not balanced at this time: why not is all there is to say."""
    from steelyard.balance.gate import Judged
    from steelyard.balance.why_not import Answer

    said = rest.decision
    current = seen.active.spec.allocation.after.replicas(stage) if seen.active else 0
    return Answer(rest, current, (Judged(said.kind, False, "", "the job is being balanced", said.reason),))


def _sentences(stage: Stage, wanted: int, answer: Answer) -> Iterator[str]:
    objection = answer.objection
    has = f"{stage.field} has {answer.current} replica{'' if answer.current == 1 else 's'}"
    if answer.current == wanted:
        yield f"{has}."
    elif objection is None:
        yield f"Nothing keeps {stage.field} from {wanted} replicas: {answer.plan.decision.reason}"
    else:
        yield f"{has} and not {wanted}: {objection.kind}: {objection.reason}."
        if objection.remedy:
            yield f"It takes {objection.remedy}."


def _document(job: AgenticRLJob, stage: Stage, wanted: int, answer: Answer) -> dict[str, Any]:
    from steelyard.cli.explain_now import allocation, rule

    return {
        "namespace": job.metadata.namespace,
        "name": job.metadata.name,
        "stage": stage.field,
        "replicas": answer.current,
        "wanted": wanted,
        "objection": answer.objection and rule(answer.objection),
        "rules": [rule(one) for one in answer.rules],
        "allocation": answer.after and allocation(answer.after),
    }
