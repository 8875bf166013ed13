"""`steelyard logs`: all pods of a job as one stream, each line with where it is from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from steelyard.api.names import BUS, LABEL_JOB, LABEL_STAGE, Stage
from steelyard.cli import codes
from steelyard.cli.ages import length
from steelyard.cli.codes import Exit
from steelyard.cli.log_lines import Followed, Line, parsed
from steelyard.cli.options import STAGES, Job, stage_named
from steelyard.cli.output import DocumentOutput, Format, Tone, complain, note, paint, write
from steelyard.cli.session import Session
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError, NotFound

TAIL = 1000
MOST_FOLLOWED = 40
"""Each followed log is a kubectl of its own."""
LOOK_SECONDS = 5.0
"""How often new pods are looked for."""
FIELDS = {stage.value: stage.field for stage in Stage}
"""What documents call a stage by what its pods are labelled."""


def _stage(text: str) -> str:
    """What the pods of a stage are labelled; the bus has logs too."""
    return BUS if text == BUS else stage_named(text).value


def logs(
    job: Job,
    session: Session,
    stage: Annotated[
        str | None, typer.Option(parser=_stage, metavar="STAGE", help=f"One of {', '.join(STAGES)}, {BUS}.")
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on, with pods that come later too.")] = False,
    since: Annotated[
        int | None, typer.Option(parser=length, metavar="DURATION", help="How far back: 90s, 10m, 2h.")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help=f"Newest lines of each log. Default: {TAIL}, all of --since."),
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Show the time of each line.")] = False,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Show the logs of a job's pods as one stream.

    Lines come in the order of their times and begin with stage/pod. With -f it goes on until you interrupt it or the
    job ends. Exit codes: 0 shown, 4 some logs could not be read, 6 no such job.

    \b
    $ steelyard logs calculator --stage trainer --tail 50
    $ steelyard logs calculator -f --since 10m
    """
    if follow and output.for_programs:
        raise typer.BadParameter(f"-o {output} shows one moment", param_hint="--follow")
    session.job(job)
    stream = _Stream(session, job, stage, timestamps, output)
    lines = tail if tail is not None else (-1 if since else TAIL)
    options = {"tail": str(lines), **({"since": f"{since}s"} if since else {})}
    complete = stream.follow(options) if follow else stream.show(options)
    return Exit.OK if complete else Exit.WARNINGS


@dataclass(frozen=True)
class _Container:
    """One container that has started."""

    namespace: str
    stage: str
    pod: str
    name: str
    alone: bool
    """Whether its pod has no other."""
    run: str
    """Another after each restart."""

    @property
    def source(self) -> str:
        return f"{self.stage}/{self.pod}" + ("" if self.alone else f"/{self.name}")


@dataclass
class _Stream:
    session: Session
    job: str
    stage: str | None
    timestamps: bool
    output: Format
    followed: Followed = field(default_factory=Followed)
    full: bool = False
    """Whether it was said that no more logs are followed."""

    def show(self, options: dict[str, str]) -> bool:
        """What there is now; whether every log could be read."""
        found = self.containers()
        if not found:
            note(f"no container of {self.stage or 'the job'} has started")
        lines: list[tuple[Line, _Container]] = []
        complete = True
        read = self.session.kubectl.at_once([self._reader(one, options) for one in found])
        for container, log in zip(found, read, strict=True):
            if isinstance(log, ClusterError):
                complete = _excused(container.source, log) and complete
            else:
                lines += [(line, container) for line in log]
        lines.sort(key=lambda one: one[0])
        if self.output.for_programs:
            write("LogLineList", [_document(*one) for one in lines], self.output)
        else:
            self._print(line for line, _ in lines)
        return complete

    def follow(self, options: dict[str, str]) -> bool:
        """What there is and what comes; whether every log could be read to its end."""
        looked, complete = float("-inf"), True
        with ExitStack() as processes:
            try:
                while True:
                    if time.monotonic() - looked >= LOOK_SECONDS:
                        ended, looked = self._ended(), time.monotonic()
                        self._take_up(processes, options)
                        options = {"tail": "-1"}  # of what starts from now on all of it
                        if ended and not self.followed.count:
                            self._print(self.followed.due())
                            return complete
                    self._print(self.followed.due())
                    for source, error in self.followed.broken():
                        complete = _excused(source, error) and complete
            except KeyboardInterrupt:
                return complete

    def containers(self) -> list[_Container]:
        selector = f"{LABEL_JOB}={self.job}" + (f",{LABEL_STAGE}={self.stage}" if self.stage else "")
        found = []
        for pod in self.session.kubectl.objects(kinds.POD, self.session.namespace, selector=selector):
            metadata, several = pod["metadata"], len(pod["spec"]["containers"]) > 1
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                if not {"running", "terminated"} & set(status.get("state") or ()):
                    continue
                run = f"{metadata['uid']}/{status.get('containerID', '')}"
                place = metadata["namespace"], metadata["labels"][LABEL_STAGE], metadata["name"], status["name"]
                found.append(_Container(*place, alone=not several, run=run))
        return found

    def _reader(self, container: _Container, options: dict[str, str]) -> Callable[[], list[Line]]:
        def read() -> list[Line]:
            log = self.session.kubectl.logs(
                container.namespace, container.pod, container=container.name, follow=False, timestamps="true", **options
            )
            return list(parsed(container.source, log))

        return read

    def _take_up(self, processes: ExitStack, options: dict[str, str]) -> None:
        """Follow what is not followed yet, as far as there is room."""
        for one in self.containers():
            key = f"{one.source}@{one.run}"
            if self.followed.knows(key):
                continue
            if self.followed.count >= MOST_FOLLOWED:
                if not self.full:
                    note(f"{MOST_FOLLOWED} logs are followed, and no more at a time: name a --stage")
                self.full = True
                return
            log = self.session.kubectl.log(
                one.namespace, one.pod, container=one.name, follow=True, timestamps="true", **options
            )
            self.followed.read(key, one.source, processes.enter_context(log))

    def _ended(self) -> bool:
        try:
            status = self.session.job(self.job).get("status") or {}
        except NotFound:
            return True
        conditions = status.get("conditions") or ()
        return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)

    def _print(self, lines: Iterable[Line]) -> None:
        for line in lines:
            stamp = f"{line.time} " if self.timestamps else ""
            typer.echo(f"{paint(line.source, Tone.FAINT)} {stamp}{line.text}")


def _excused(source: str, error: ClusterError) -> bool:
    """Say why a log was not read; whether nobody could have read it, because its pod went meanwhile."""
    if isinstance(error, NotFound):
        note(f"{source} went meanwhile")
        return True
    complain(codes.PARTLY_UNREADABLE, source, str(error))
    return False


def _document(line: Line, container: _Container) -> dict[str, Any]:
    return {
        "time": line.time or None,
        "stage": FIELDS.get(container.stage, container.stage),
        "pod": container.pod,
        "container": container.name,
        "text": line.text,
    }
