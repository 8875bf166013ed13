"""How commands act on a job: read it with its ledger, decide, write, and say what was done and how to take it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from steelyard.api import AllocationRevision
from steelyard.api.names import JOB_KIND, LABEL_JOB
from steelyard.balance.ledger import completed
from steelyard.balance.types import Seen
from steelyard.cli import codes
from steelyard.cli.ages import duration
from steelyard.cli.gitops import as_yaml, git_owner, patch_for_git
from steelyard.cli.holds import NotAllowed
from steelyard.cli.output import Format, complain, named, note, write
from steelyard.cli.session import Session
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import ClusterError, Conflict
from steelyard.cluster.kinds import Kind, Object

TRIES = 5
"""Somebody else may take the number of a new entry between reading and writing; so often in a row only by a bug."""


@dataclass(frozen=True)
class Situation:
    """A job with its ledger at one moment, and who asks."""

    obj: Object
    seen: Seen
    user: str
    now: datetime

    @property
    def git(self) -> str | None:
        """Who keeps the job like its manifest in Git, if anybody does."""
        return git_owner(self.obj["metadata"])

    def until(self, seconds: int | None) -> datetime | None:
        return None if seconds is None else (self.now + timedelta(seconds=seconds)).replace(microsecond=0)


def look(session: Session, name: str) -> Situation:
    """What there is now. Raises ClusterError; NotAllowed when the stored spec breaks a rule."""
    reads: list[Callable[[], Any]] = [
        lambda: session.job(name),
        lambda: session.kubectl.objects(kinds.REVISION, session.namespace, selector=f"{LABEL_JOB}={name}"),
        lambda: session.user,
    ]
    job, revisions, user = session.kubectl.at_once(reads)
    if isinstance(job, ClusterError):
        raise job
    if isinstance(revisions, ClusterError):
        raise revisions
    read = records.job(job)
    if read.resource is None:
        raise NotAllowed("spec", name, f"{read.broken}; correct the job first")
    entries, passed_over = records.ledger(revisions)
    for sentence in passed_over:
        note(sentence)
    return Situation(job, Seen(read.resource, completed(entries)), str(user), datetime.now(UTC))


def record(
    session: Session, name: str, decide: Callable[[Situation], AllocationRevision]
) -> tuple[Situation, AllocationRevision, Object]:
    """Add what `decide` makes of the present ledger; looks and decides again when its number was taken meanwhile."""
    for tries_left in reversed(range(TRIES)):
        situation = look(session, name)
        entry = decide(situation)
        body = {key: value for key, value in entry.to_dict().items() if key != "status"}
        try:
            return situation, entry, session.kubectl.create(kinds.REVISION, body)
        except Conflict:
            if not tries_left:
                raise
    raise AssertionError("unreachable")


def set_spec(session: Session, name: str, change: Mapping[str, Any], output: Format) -> Object:
    """Change the spec of a job that no GitOps tool owns; NotAllowed for the others, after the patch for Git."""
    obj = session.job(name)
    if owner := git_owner(obj["metadata"]):
        patch = patch_for_git(session.namespace, name, change)
        typer.echo(json.dumps(patch, indent=2) if output is Format.JSON else as_yaml(patch))
        raise NotAllowed("spec", ", ".join(change), f"{owner} keeps it as it is in Git: commit the patch above")
    return session.kubectl.patch(kinds.JOB, session.namespace, name, {"spec": change})


@contextmanager
def refusals(session: Session, name: str) -> Iterator[None]:
    """What the job's rules do not allow becomes a message and exit code 3."""
    try:
        yield
    except NotAllowed as error:
        complain(codes.NOT_ALLOWED, f"{JOB_KIND} {session.namespace}/{name}", str(error))
        raise typer.Exit(codes.NOT_ALLOWED.exit) from error


def tell(kind: Kind, objects: Sequence[Object], output: Format, done: Sequence[str], hints: Sequence[str]) -> None:
    """What was done: sentences, the objects for programs, or their names; how to take it back goes to stderr."""
    if output.for_programs:
        write(f"{kind.name}List", objects, output)
    elif output is Format.NAME:
        for obj in objects:
            typer.echo(named(kind, obj["metadata"]["name"]))
    else:
        for line in done:
            typer.echo(line)
    for hint in hints:
        note(hint)


def how_long(seconds: int | None, until: datetime | None) -> str:
    """`for 1h, until 2026-11-30T14:05:00Z`; `until you resume it`."""
    if seconds is None or until is None:
        return "until you resume it"
    return f"for {duration(seconds)}, until {until:%Y-%m-%dT%H:%M:%SZ}"


def resumed_by(name: str, namespace: str) -> str:
    return f"end it earlier with: steelyard resume {name} -n {namespace}"
