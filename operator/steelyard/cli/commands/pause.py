"""`steelyard pause`: the allocation stays as it is, or the pods stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import For, Job
from steelyard.cli.output import Format, ObjectOutput
from steelyard.cli.session import Session
from steelyard.cluster import kinds

if TYPE_CHECKING:
    from steelyard.api import AllocationRevision
    from steelyard.cli.acting import Situation


def pause(
    job: Job,
    session: Session,
    seconds: For = None,
    workload: Annotated[
        bool, typer.Option("--workload", help="Suspend the pods too, after a checkpoint (spec.suspend).")
    ] = False,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """Freeze scaling, or suspend the pods.

    The present allocation is held; the pipeline goes on. With --workload the job is suspended instead; if Argo CD or
    Flux keeps its spec, the patch for Git is printed and nothing is changed. Exit codes: 0 paused, 3 not allowed.

    \b
    $ steelyard pause calculator --for 30m
    $ steelyard pause calculator --workload
    """
    from steelyard.cli import holds
    from steelyard.cli.acting import how_long, record, refusals, resumed_by, tell

    with refusals(session, job):
        if workload:
            _suspend(job, session, seconds, output)
            return
        situation, entry, created = record(session, job, lambda at: _freeze(at, seconds))
    allocation, length = entry.spec.allocation.after, how_long(seconds, situation.until(seconds))
    tell(
        kinds.REVISION,
        [created],
        output,
        [f"{entry.metadata.name} holds {allocation} {length}"],
        [*holds.doubts(situation.seen), resumed_by(job, session.namespace)],
    )


def _freeze(at: Situation, seconds: int | None) -> AllocationRevision:
    from steelyard.cli import holds

    present = holds.present(at.seen).spec.allocation.after
    return holds.hold(at.seen, present, at.until(seconds), f"{at.user} paused scaling")


def _suspend(job: str, session: Session, seconds: int | None, output: Format) -> None:
    from steelyard.cli.acting import set_spec, tell

    if seconds is not None:
        raise typer.BadParameter("is for scaling only: nobody would resume the workload", param_hint="--for")
    changed = set_spec(session, job, {"suspend": True}, output)
    done = f"{job} is suspended: the trainer writes a checkpoint, then its pods stop; claims stay"
    hint = f"go on with: steelyard resume {job} --workload -n {session.namespace}"
    tell(kinds.JOB, [changed], output, [done], [hint])
