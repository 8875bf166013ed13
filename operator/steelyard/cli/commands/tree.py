"""`steelyard tree`: what a job consists of, from its stages down to each pod, and what is wrong where."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated

import typer

from steelyard.api.names import LABEL_JOB
from steelyard.cli import codes, tree_nodes
from steelyard.cli.ages import now
from steelyard.cli.codes import Exit
from steelyard.cli.jobs import parse
from steelyard.cli.options import Job, Prometheus, Watch
from steelyard.cli.output import DocumentOutput, Format, NoHeaders, complain, write
from steelyard.cli.screen import Screen
from steelyard.cli.session import Session, told
from steelyard.cluster import kinds
from steelyard.cluster.following import Following, Watched
from steelyard.cluster.places import Place

PARTS = (kinds.POD, kinds.REVISION, *(kinds.BY_NAME[name] for name in ("StatefulSet", "Deployment", "Job")))


def tree(
    session: Session,
    job: Job,
    watch: Watch = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="Ask Prometheus which policy version each pod works with.")
    ] = False,
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
    no_headers: NoHeaders = False,
) -> Exit:
    """Show what a job consists of: stages, workloads, pods, and what is wrong where.

    Exit codes: 0 fine; 3 the job is degraded, stalled or failed; 6 forbidden or no such job.
    """
    about, for_programs = f"{session.namespace}/{job}", output.for_programs
    if watch and for_programs:
        raise typer.BadParameter(f"-o {output} shows one moment", param_hint="--watch")
    watched = [Watched(kind, session.namespace, f"{LABEL_JOB}={job}", needed=False) for kind in PARTS]
    watched.append(Watched(kinds.JOB, session.namespace, fields=f"metadata.name={job}"))
    with Following(session.kubectl, watched) as following, ExitStack() as block:
        for kind, error in following.lacking.items():
            complain(codes.PARTLY_UNREADABLE, about, f"{kind.plural}: {told(error)}")
        screen = block.enter_context(Screen()) if watch else None
        while True:
            jobs = following.objects(kinds.JOB)
            if not jobs:
                raise session.no_job(job)
            parts = {kind.name: following.objects(kind) for kind in PARTS}
            known = _versions(session, prometheus, job, about) if versions else {}
            root = tree_nodes.build(jobs[0], parts, known)
            if for_programs:
                write("JobTree", [tree_nodes.document(root)], output)
            lines = [] if for_programs else tree_nodes.lines(root, now(), headers=not no_headers)
            if screen:
                screen.show(lines)
            for line in () if screen else lines:
                typer.echo(line.text)
            parsed = parse(jobs[0])
            if not watch or parsed.ended:
                return Exit.NEGATIVE if parsed.unwell else Exit.OK
            following.wait()


def _versions(session: Session, named: Place | None, job: str, about: str) -> Mapping[str, str]:
    """Pod -> the policy version it works with."""
    from steelyard.cli.asking import Asking

    query = f'max by (pod) (steelyard_policy_version{{namespace="{session.namespace}",pod=~"{job}-.*"}})'
    with Asking(session, named) as asking:
        found = asking.ask({"version": query}).get("version", ())
        if asking.why_not:
            complain(codes.NO_PROMETHEUS, about, asking.why_not)
    return {one.labels["pod"]: f"{one.value:g}" for one in found}
