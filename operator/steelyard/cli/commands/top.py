"""`steelyard top`: one job on a full screen, as it happens."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from shutil import get_terminal_size
from typing import Annotated

import typer

from steelyard.api.names import LABEL_JOB
from steelyard.cli import top_frame
from steelyard.cli.ages import now
from steelyard.cli.asking import Asking
from steelyard.cli.codes import Exit
from steelyard.cli.jobs import parse
from steelyard.cli.options import Job, Prometheus
from steelyard.cli.output import DocumentOutput, Format, live, show
from steelyard.cli.screen import cut
from steelyard.cli.session import Session, told
from steelyard.cli.top_frame import Frame
from steelyard.cluster import kinds
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.following import Following, Watched
from steelyard.cluster.places import Place
from steelyard.cluster.problems import condition, problem

KEYS = "q quit   p pause or resume scaling   e explain"
MOST_PODS = 5
HEAD = 5
"""Lines from the beginning of what a command says that are shown in any case."""


def top(
    session: Session,
    job: Job,
    once: Annotated[bool, typer.Option("--once", help="One look, as text.")] = False,
    interval: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Between looks at Prometheus.")] = 5.0,
    prometheus: Prometheus = None,
    output: DocumentOutput = Format.TABLE,
) -> Exit:
    """Watch one job: where each stage's time goes, what waits, the bottleneck, the last decisions.

    Keys: q quits, p pauses or resumes scaling, e explains the last decision. Off a terminal, and with -o json, it is
    one look. Exit codes: 0; 6 forbidden or no such job.
    """
    watched = [
        Watched(kinds.JOB, session.namespace, fields=f"metadata.name={job}"),
        Watched(kinds.POD, session.namespace, f"{LABEL_JOB}={job}", needed=False),
    ]
    with Following(session.kubectl, watched) as following, Asking(session, prometheus) as asking:
        view = _View(session, job, prometheus, following, asking)
        if (frame := view.look()) is None:
            raise session.no_job(job)
        if once or output.for_programs or not (live(sys.stdout) and sys.stdin.isatty()):
            width = get_terminal_size().columns if live(sys.stdout) else None
            show("JobTop", [top_frame.document(frame)], top_frame.lines(frame, width), output)
        else:
            _run(view, interval)
    return Exit.OK


class _View:
    """One job, and whom to ask about it."""

    def __init__(self, session: Session, job: str, named: Place | None, following: Following, asking: Asking) -> None:
        self.session, self.job, self.named, self.following, self._asking = session, job, named, following, asking

    def look(self) -> Frame | None:
        """None when there is no such job any more."""
        found = self.following.objects(kinds.JOB)
        if not found:
            return None
        answers = self._asking.ask(top_frame.queries(self.session.namespace, self.job))
        figures = {name: lines[0].value for name, lines in answers.items() if name != "shares"}
        return Frame(
            parse(found[0]),
            now(),
            top_frame.shares_of([(line.labels, line.value) for line in answers.get("shares", ())]),
            figures.get("staleness"),
            figures.get("tokens"),
            self._waiting(),
            self._asking.why_not,
        )

    def _waiting(self) -> list[str]:
        said = []
        for pod in self.following.objects(kinds.POD):
            status = pod.get("status") or {}
            if condition(status, "Ready") or "deletionTimestamp" in pod["metadata"]:
                continue
            if found := problem(status):
                said.append(f"{pod['metadata']['name']}: {found.reason}: {found.message}")
        return [*said[:MOST_PODS], *([f"and {len(said) - MOST_PODS} more"] if len(said) > MOST_PODS else [])]


def _run(view: _View, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    drawing = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def draw(lines: Sequence[str], foot: str) -> None:
        kept, more = cut(len(lines), console.height - 1)
        shown = "\n".join([*lines[:kept], *more, foot])
        drawing.update(Text.from_ansi(shown, no_wrap=True, overflow="ellipsis"), refresh=True)

    with _keys(), drawing:
        while (frame := view.look()) is not None:
            draw(top_frame.lines(frame, console.width), KEYS)
            key = view.following.wait(interval, sys.stdin)
            if key == "q":
                return
            if key in ("e", "p"):
                draw([], "...")
                said = _explained(view) if key == "e" else _paused_or_resumed(view, held=frame.job.held)
                draw(both_ends(said, console.height - 1), "any key goes back")
                while not view.following.wait(keys=sys.stdin):
                    continue


def both_ends(lines: Sequence[str], height: int) -> list[str]:
    """The beginning, which says what, and the end, which says what would change it, when all is too much."""
    if len(lines) <= height:
        return list(lines)
    kept = max(height - HEAD - 1, 1)
    return [*lines[:HEAD], f"... {len(lines) - HEAD - kept} lines are left out ...", *lines[-kept:]]


def _explained(view: _View) -> list[str]:
    """What `steelyard explain` says."""
    from steelyard.cli.commands.explain import explain

    return _said(lambda: explain(view.session, view.job, prometheus=view.named))


def _paused_or_resumed(view: _View, *, held: bool) -> list[str]:
    """What `steelyard pause`, or `resume` where a hold is in force, says."""
    from steelyard.cli.commands.pause import pause
    from steelyard.cli.commands.resume import resume

    return _said(lambda: (resume if held else pause)(view.job, view.session))


def _said(command: Callable[[], object]) -> list[str]:
    """The lines of a command that ran beside the screen."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), suppress(typer.Exit):  # it has said why
        try:
            command()
        except ClusterError as error:
            typer.echo(told(error))
    return out.getvalue().splitlines()


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one and unseen while the block lasts."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
