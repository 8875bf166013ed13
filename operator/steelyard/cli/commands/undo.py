"""`steelyard undo`: an earlier allocation again, as a hold that ends, and the patch that keeps it."""

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


def undo(
    job: Job,
    session: Session,
    to: Annotated[
        int | None, typer.Option(metavar="N", help="Number of the entry to go back to. Default: the one before.")
    ] = None,
    seconds: For = None,
    output: ObjectOutput = Format.TABLE,
) -> None:
    """Go back to an earlier allocation for a while.

    It is held, and the patch that keeps it is printed. The patch (spec.scaling.pin) is for Git, or for `kubectl apply`;
    the cluster's copy of the spec is not touched. If Argo CD or Flux keeps the job, --for is needed: what lasts belongs
    in Git. Exit codes: 0 held, 3 not allowed.

    \b
    $ steelyard undo calculator --for 1h
    $ steelyard undo calculator --to 7
    """
    from steelyard.balance.words import changes
    from steelyard.cli import holds
    from steelyard.cli.acting import how_long, record, refusals, resumed_by, tell
    from steelyard.cli.gitops import as_yaml, patch_for_git

    def decide(at: Situation) -> AllocationRevision:
        if at.git and seconds is None:
            raise holds.NotAllowed("--for", "not given", f"{at.git} keeps this job: what lasts belongs in Git")
        back = holds.undone(at.seen, to)
        why = f"{at.user} goes back to {back.metadata.name}"
        return holds.hold(at.seen, back.spec.allocation.after, at.until(seconds), why)

    with refusals(session, job):
        situation, entry, created = record(session, job, decide)
    target = holds.undone(situation.seen, to).metadata.name
    moves = changes(entry.spec.allocation.before, entry.spec.allocation.after)
    length = how_long(seconds, situation.until(seconds))
    done = [
        f"# {entry.metadata.name} holds the allocation of {target} ({moves}) {length}.",
        "# To keep it, commit this and remove it when the operator may go on:",
        as_yaml(patch_for_git(session.namespace, job, {"scaling": {"pin": target}})),
    ]
    tell(kinds.REVISION, [created], output, done, [*holds.doubts(situation.seen), resumed_by(job, session.namespace)])
