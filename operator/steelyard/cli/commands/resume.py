"""`steelyard resume`: end a hold, or let a suspended job go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Job
from steelyard.cli.output import Format, ObjectOutput, note
from steelyard.cli.session import Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import Conflict, NotFound

if TYPE_CHECKING:
    from steelyard.balance.types import Seen
    from steelyard.cli.acting import Situation


def resume(
    job: Job,
    session: Session,
    workload: Annotated[
        bool, typer.Option("--workload", help="Let a suspended job go on at its checkpoint (spec.suspend).")
    ] = False,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """End the holds of a job, or let a suspended one go on.

    The allocation before the hold is in force again, and the operator scales. Exit codes: 0 also when nothing was held,
    3 when Argo CD or Flux keeps spec.suspend (the patch for Git is printed).
    """
    from steelyard.cli.acting import look, refusals, set_spec, tell

    with refusals(session, job):
        if workload:
            changed = set_spec(session, job, {"suspend": False}, output)
            tell(kinds.JOB, [changed], output, [f"{job} goes on at its last checkpoint"], [])
            return
        situation = look(session, job)
        _end(job, session, situation, output)


def _end(job: str, session: Session, situation: Situation, output: Format) -> None:
    from steelyard.balance.words import changes
    from steelyard.cli import holds
    from steelyard.cli.acting import tell

    seen = situation.seen
    ended = holds.in_force(seen, situation.now.timestamp())
    for hold in reversed(ended):  # the one in force last: none below it comes into force for a moment
        try:
            session.kubectl.delete(kinds.REVISION, session.namespace, hold.metadata.name, uid=hold.metadata.uid)
        except (NotFound, Conflict):
            note(f"{hold.metadata.name} had ended already")
    left = holds.after_resume(seen, ended)
    done = [f"{one.metadata.name} is ended" for one in ended]
    if ended and left:
        moves = changes(ended[0].spec.allocation.after, left.spec.allocation.after)
        done.append(f"{left.metadata.name} is in force again" + ("" if moves == "nothing" else f": {moves}"))
    tell(kinds.REVISION, [one.to_dict() for one in ended], output, done, [] if ended else [_why_not(seen, job)])


def _why_not(seen: Seen, job: str) -> str:
    spec = seen.job.spec
    if spec.suspend:
        return f"nothing is held; the job is suspended: steelyard resume {job} --workload"
    if spec.scaling.pin:
        return f"nothing is held; spec.scaling.pin pins {spec.scaling.pin}: remove the field"
    return "nothing is held"
