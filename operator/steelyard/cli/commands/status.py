"""`steelyard status`: one row per job, and for one job what is wrong with it and why it was left as it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from steelyard.cli import codes, status_rows
from steelyard.cli.ages import length, now
from steelyard.cli.codes import Exit
from steelyard.cli.jobs import CONDITIONS, Job, parse
from steelyard.cli.options import AllNamespaces, Watch, job_named
from steelyard.cli.output import Format, NoHeaders, Output, complain, named, write
from steelyard.cli.screen import Line, Screen
from steelyard.cli.session import Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.kinds import Object


def status(
    session: Session,
    job: Annotated[
        str | None, typer.Argument(parser=job_named, metavar="JOB", help="Name of an AgenticRLJob; all by default.")
    ] = None,
    everywhere: AllNamespaces = False,
    output: Output = Format.TABLE,
    no_headers: NoHeaders = False,
    watch: Watch = False,
    until: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Wait until it holds: Ready, Complete, Balanced=False ...")
    ] = None,
    timeout: Annotated[
        int,
        typer.Option(
            parser=length, metavar="DURATION", show_default=False, help="How long --until waits. Default: 10m."
        ),
    ] = 600,
) -> Exit:
    """Show jobs: phase, ready/desired replicas of each stage, GPUs, rates, the last decision.

    Exit codes: 0 fine; 3 JOB is degraded, stalled or failed, or ended without meeting --until; 5 --until was not met in
    time; 6 forbidden or no such job.

    \b
    $ steelyard status -A
    $ steelyard status calculator --until Ready --timeout 10m
    """
    if job and everywhere:
        raise typer.BadParameter(f"is for all jobs, and {job} is one: name its namespace with -n", param_hint="-A")
    view = _View(session, job, None if everywhere else session.namespace, output, not no_headers)
    if until is not None:
        if job is None:
            raise typer.BadParameter("needs a JOB", param_hint="--until")
        return _follow(view, _goal(until, timeout))
    if watch:
        if not _lasting(output):
            raise typer.BadParameter(f"-o {output} shows one moment; wait for it with --until", param_hint="--watch")
        return _follow(view)
    jobs = view.read()
    view.print(jobs)
    return _verdict(jobs) if job else Exit.OK  # a list of jobs is an answer, whatever they are


@dataclass(frozen=True)
class _View:
    """What was asked for, and how to show it."""

    session: Session
    job: str | None
    namespace: str | None
    output: Format
    headers: bool

    def read(self) -> list[Job]:
        if self.job is not None:
            return [parse(self.session.job(self.job))]
        return [parse(obj) for obj in self.session.kubectl.objects(kinds.JOB, self.namespace)]

    def print(self, jobs: Sequence[Job]) -> None:
        pools = self._pools(jobs)
        if self.output is Format.NAME:
            for job in jobs:
                typer.echo(named(kinds.JOB, job.name))
        elif self.output.for_programs:
            write("JobStatusList", [status_rows.document(job, pools) for job in jobs], self.output)
        else:
            for line in self._lines(jobs, pools):
                typer.echo(line.text)

    def frame(self, jobs: Sequence[Job]) -> list[Line]:
        return self._lines(jobs, self._pools(jobs))

    def _lines(self, jobs: Sequence[Job], pools: Sequence[Object]) -> list[Line]:
        if not jobs:
            where = f"namespace {self.namespace}" if self.namespace else "any namespace"
            return [Line(f"No jobs in {where}.", None)]
        wide, namespaces = self.output is Format.WIDE, self.namespace is None
        lines = status_rows.lines(jobs, pools, now(), wide=wide, namespaces=namespaces, headers=self.headers)
        return [*lines, *(Line(text, text) for text in (status_rows.words(jobs[0]) if self.job else ()))]

    def _pools(self, jobs: Sequence[Job]) -> list[Object]:
        """Only looked at for a job that waits in one; a viewer of a single namespace may not read them."""
        if not any(job.waits_for_gpus for job in jobs):
            return []
        try:
            return self.session.kubectl.objects(kinds.POOL)
        except ClusterError:
            return []


def _lasting(output: Format) -> bool:
    """Whether it can be shown again and again, or is a document of one moment."""
    return output in (Format.TABLE, Format.WIDE)


def _verdict(jobs: Sequence[Job]) -> Exit:
    return Exit.NEGATIVE if any(job.unwell for job in jobs) else Exit.OK


@dataclass(frozen=True)
class _Goal:
    """A condition that is waited for."""

    condition: str
    holds: bool
    seconds: float

    def met(self, job: Job) -> bool:
        found = job.conditions.get(self.condition)
        return found is not None and found.holds is self.holds

    def __str__(self) -> str:
        return f"{self.condition}={self.holds}"


def _goal(text: str, seconds: float) -> _Goal:
    condition, _, value = text.partition("=")
    if condition not in CONDITIONS or value not in ("", "True", "False"):
        known = ", ".join(CONDITIONS)
        raise typer.BadParameter(f"{text}: must be one of {known}; =False waits for its end", param_hint="--until")
    return _Goal(condition, value != "False", seconds)


def _follow(view: _View, goal: _Goal | None = None) -> Exit:
    from steelyard.cluster.following import Following, Watched

    deadline = time.monotonic() + goal.seconds if goal else None
    watched = Watched(kinds.JOB, view.namespace, fields=f"metadata.name={view.job}" if view.job else "")
    with Following(view.session.kubectl, [watched]) as following, Screen() as screen:
        while True:
            jobs = [parse(obj) for obj in following.objects(kinds.JOB)]
            ended = _ended(view, jobs, goal, deadline)
            if _lasting(view.output):
                screen.show(view.frame(jobs))
            elif ended is not None:
                view.print(jobs)
            if ended is not None:
                return ended
            following.wait(deadline and deadline - time.monotonic())


def _ended(view: _View, jobs: Sequence[Job], goal: _Goal | None, deadline: float | None) -> Exit | None:
    """How the wait ends, None when it goes on."""
    if view.job and not jobs:
        raise view.session.no_job(view.job)
    about = f"{view.namespace}/{view.job}"
    if goal and goal.met(jobs[0]):
        return Exit.OK
    if view.job and jobs[0].ended:
        if goal:
            complain(codes.NEVER, about, f"the job has ended ({jobs[0].phase}), {goal} will not come")
        return Exit.NEGATIVE if goal else _verdict(jobs)
    if goal and deadline is not None and time.monotonic() >= deadline:
        found = jobs[0].conditions.get(goal.condition)
        told = f"{found.reason}: {found.message}" if found else "the operator has not said anything about it"
        complain(codes.TIMED_OUT, about, f"{goal} did not come in {goal.seconds:.0f} s; {told}")
        return Exit.TIMED_OUT
    return None
