"""`steelyard dashboard`: its page belongs to one browser of this machine, and what keeps it from starting is said."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.cli.board.server import Page, Server
from steelyard.cluster.kinds import JOB
from tests.unit.cli.fake_kubectl import FakeKubectl, State


@contextmanager
def served(render: Any = None) -> Iterator[Server]:
    server = Server(0, render or (lambda path: Page(f"page {path}", refresh=5) if path == "/" else None))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        with server:
            yield server
            server.shutdown()
    finally:
        thread.join(5)


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_the_page_is_served_at_its_address_and_nowhere_else() -> None:
    with served() as server:
        assert server.server_address[0] == "127.0.0.1"
        assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/[\w-]{{32}}/", server.url)
        status, headers, body = ask(server, server.base)
        assert (status, body) == (200, "page /")
        assert headers["Refresh"] == "5"
        for path in ("/", "/guess/", f"{server.base}other", server.base.lower()[:-2] + "/"):
            assert ask(server, path)[::2] == (404, "there is nothing here\n")


def test_a_name_that_was_made_to_lead_here_gets_nothing() -> None:
    """DNS rebinding: another site's name resolves to 127.0.0.1, its script asks with its own name as Host."""
    with served() as server:
        for host in (
            "evil.example",
            f"evil.example:{server.port}",
            "127.0.0.1",
            f"127.0.0.1.evil.example:{server.port}",
        ):
            assert ask(server, server.base, Host=host)[0] == 421
        for host in (f"localhost:{server.port}", f"127.0.0.1:{server.port}"):
            assert ask(server, server.base, Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_reading_is_possible(method: str) -> None:
    with served() as server:
        assert ask(server, server.base, method)[0] == 501


def test_every_answer_forbids_framing_caching_scripts_and_referrers() -> None:
    with served() as server:
        for path in (server.base, "/guess/"):
            headers = ask(server, path)[1]
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "script" not in policy
            assert headers["Cache-Control"] == "no-store"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert not [name for name in headers if name.startswith("Access-Control")]


def test_head_has_no_body_and_requests_are_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with served() as server:
        status, headers, body = ask(server, server.base, "HEAD")
        assert (status, body) == (200, "")
        assert int(headers["Content-Length"]) == len("page /")
    assert capfd.readouterr() == ("", ""), "a log would hold the secret"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    """A cluster without jobs, which the command reaches."""
    state = State()
    monkeypatch.setattr("steelyard.cli.session.from_environment", lambda *_: FakeKubectl(state))
    return state


def test_the_address_is_all_of_stdout(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "serve_forever", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    result = CliRunner().invoke(app, ["dashboard"])
    assert result.exit_code == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]+/\n", result.stdout)


def test_who_may_not_list_jobs_is_told_before_a_browser_opens(state: State) -> None:
    state.denied = {JOB.path("default"): "Error from server (Forbidden): no jobs for you"}
    result = CliRunner().invoke(app, ["dashboard"])
    assert (result.exit_code, result.stdout) == (6, "")
    assert "no jobs for you" in result.stderr


def test_a_port_that_is_taken_is_named(state: State) -> None:
    with served() as server:
        result = CliRunner().invoke(app, ["dashboard", "--port", str(server.port)])
    assert result.exit_code == 2
    assert "in use" in result.stderr
