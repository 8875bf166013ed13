"""`steelyard hold`: one stage keeps so many replicas, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import For, Job, RequiredStage
from steelyard.cli.output import Format, ObjectOutput
from steelyard.cli.session import Session
from steelyard.cluster import kinds

if TYPE_CHECKING:
    from steelyard.api import AllocationRevision
    from steelyard.cli.acting import Situation


def hold(
    job: Job,
    session: Session,
    stage: RequiredStage,
    replicas: Annotated[int, typer.Option(min=0, max=1000, metavar="N", help="Replicas the stage shall have.")],
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Their GPU profile, no other. Default: the one that runs now."),
    ] = None,
    seconds: For = None,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """Hold a stage at so many replicas for a while.

    The other stages stay as they are, and nothing moves while the hold lasts. When it ends, the operator judges it and
    takes it back if it did harm. The job's spec is not touched, so GitOps has nothing to revert. Exit codes: 0 held, 3
    the job's spec does not allow it.

    \b
    $ steelyard hold calculator --stage sampler --replicas 4 --for 2h
    """
    from steelyard.balance.words import changes
    from steelyard.cli import holds
    from steelyard.cli.acting import how_long, record, refusals, resumed_by, tell

    def decide(at: Situation) -> AllocationRevision:
        wanted = holds.with_replicas(at.seen, stage, profile, replicas)
        return holds.hold(at.seen, wanted, at.until(seconds), f"{at.user} holds it")

    with refusals(session, job):
        situation, entry, created = record(session, job, decide)
    moves = changes(entry.spec.allocation.before, entry.spec.allocation.after)
    done = f"{entry.metadata.name} holds {moves} {how_long(seconds, situation.until(seconds))}"
    if moves == "nothing":
        done = f"{entry.metadata.name} holds the present allocation {how_long(seconds, situation.until(seconds))}"
    tell(kinds.REVISION, [created], output, [done], [*holds.doubts(situation.seen), resumed_by(job, session.namespace)])
