"""`steelyard dashboard`: what `status` and `top` show, as a page of this machine's browser."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.ages import now
from steelyard.cli.codes import Exit
from steelyard.cli.options import AllNamespaces
from steelyard.cli.output import note
from steelyard.cli.session import Session, told
from steelyard.cluster.errors import ClusterError

if TYPE_CHECKING:
    from steelyard.cli.board.data import Board
    from steelyard.cli.board.server import Page

STILL = "/still"


def dashboard(
    session: Session,
    everywhere: AllNamespaces = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", show_default=False, help="Default: any that is free.")
    ] = 0,
) -> Exit:
    """Serve a read-only page about jobs to this machine's browser.

    It shows what `steelyard status` shows, and the course of each job since it was opened, with your own rights. It
    listens on 127.0.0.1 alone, its address holds a secret of this run, and it fetches nothing from elsewhere. The
    address goes to stdout; Ctrl-C ends it. Exit codes: 0 ended, 2 the port is taken, 6 you may not list jobs.
    """
    from steelyard.cli.board.data import Board
    from steelyard.cli.board.server import Server

    namespace = None if everywhere else session.namespace
    board = Board(session, namespace, time.time)
    board.jobs()  # what cannot be read at all is said here, not in the browser

    def render(path: str) -> Page | None:
        return page_at(board, server.base, path)

    try:
        server = Server(port, render)
    except OSError as error:
        raise typer.BadParameter(f"{port}: {error.strerror}", param_hint="--port") from error
    typer.echo(server.url)
    note("open this address; Ctrl-C ends the dashboard")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return Exit.OK
    return Exit.OK


def page_at(board: Board, base: str, path: str) -> Page | None:
    from steelyard.cli.board import page
    from steelyard.cli.board.server import Page

    live = not path.startswith(f"{STILL}/")
    steps = [step for step in path.removeprefix(STILL if not live else "").split("/") if step]
    where = f"namespace {board.namespace}" if board.namespace else "all namespaces"
    context = page.Context(base, where, now(), live)
    refresh = page.REFRESH_SECONDS if live else None
    try:
        jobs = board.jobs()
    except ClusterError as error:
        return Page(page.trouble(context, told(error)), HTTPStatus.BAD_GATEWAY, refresh)
    if not steps:
        return Page(page.listing(context, jobs), refresh=refresh)
    if len(steps) != 3 or steps[0] != "jobs":
        return None
    job = next((one for one in jobs if [one.namespace, one.name] == steps[1:]), None)
    if job is None:
        gone = f"there is no job {steps[2]} in namespace {steps[1]}, or none any more"
        return Page(page.trouble(context, gone), HTTPStatus.NOT_FOUND, refresh)
    return Page(page.detail(context, job, board.history(job), board.ledger(job)), refresh=refresh)
