"""Serves pages to this machine's browser and to nobody else: loopback, a secret in the address, GET alone.

Another page in the same browser can send requests here, also under a name of its own that leads to 127.0.0.1 (DNS
rebinding). It gets nothing: the Host must be ours, the address holds a secret that it does not know, and no answer may
be framed, cached, or passed on as a referrer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOSTS = ("127.0.0.1", "localhost")
IDLE_SECONDS = 30.0
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Page:
    """One answer. With `refresh` the browser asks again after so many seconds."""

    html: str
    status: HTTPStatus = HTTPStatus.OK
    refresh: int | None = None


Render = Callable[[str], Page | None]
"""The page at a path such as `/jobs/default/calculator`, None when there is none."""


class Server(ThreadingHTTPServer):
    """Answers on loopback until it is shut down. `url` is what the user opens, secret included."""

    daemon_threads = True

    def __init__(self, port: int, render: Render) -> None:
        """Port 0 takes any that is free. Raises OSError when the port is taken."""
        super().__init__((HOSTS[0], port), _Handler)
        self.secret = secrets.token_urlsafe(24)
        self.render = render

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOSTS[0]}:{self.port}{self.base}"

    @property
    def base(self) -> str:
        """The path behind which its pages lie."""
        return f"/{self.secret}/"

    def admits(self, host: str | None) -> bool:
        """Whether a request's Host header names this server."""
        return host in {f"{name}:{self.port}" for name in HOSTS}

    def path_of(self, target: str) -> str | None:
        """What is asked for behind the secret, None when the secret is not there."""
        given, _, rest = target.partition("?")[0].removeprefix("/").partition("/")
        return f"/{rest}" if secrets.compare_digest(given.encode(), self.secret.encode()) else None


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "steelyard"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        if not self.server.admits(self.headers.get("Host")):
            self._answer(Page("this is not the address of the dashboard\n", HTTPStatus.MISDIRECTED_REQUEST))
            return
        path = self.server.path_of(self.path)
        page = self.server.render(path) if path is not None else None
        self._answer(page or Page("there is nothing here\n", HTTPStatus.NOT_FOUND))

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, page: Page) -> None:
        body = page.html.encode()
        self.send_response(page.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if page.refresh is not None:
            self.send_header("Refresh", str(page.refresh))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A terminal full of requests helps nobody, and each line would hold the secret."""
