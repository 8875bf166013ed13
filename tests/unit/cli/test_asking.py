"""Prometheus asked again and again, as `top` does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from steelyard.audit.record import Total
from steelyard.cli.asking import Asking
from steelyard.cli.session import Session
from steelyard.cluster.places import place_of
from tests.unit.cli.fake_kubectl import FakeKubectl, State

ONE = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "1"]}]}}


class Counting(ThreadingHTTPServer):
    """A Prometheus to which everything is one, and how often somebody connected to it."""

    connections = 0

    def verify_request(self, request: object, client_address: object) -> bool:
        self.connections += 1
        return True


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps(ONE).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def prometheus() -> Iterator[Counting]:
    with Counting(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_one_connection_serves_every_look(prometheus: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    later = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr("httpcore._async.http11.time", clock)
    place = place_of(f"http://127.0.0.1:{prometheus.server_port}")
    with Asking(Session(FakeKubectl(State())), place) as asking:
        for later[0] in (0.0, 5.0, 10.0, 40.0):
            assert asking.ask({"up": "vector(1)"}) == {"up": (Total({}, 1.0),)}
            assert asking.why_not is None
    assert prometheus.connections == 1
