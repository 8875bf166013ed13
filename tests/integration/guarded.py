"""A Prometheus on this machine that asks for something: a certificate of an authority of its own, and a header."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from e2e.cluster.shell import run

ANSWER = '{"status": "success", "data": {"resultType": "vector", "result": []}}'


@contextmanager
def guarded(folder: Path, header: str | None = None, answer: str = ANSWER, status: int = 200) -> Iterator[str]:
    """Its URL while the block lasts; `folder` gets its authority as ca.crt. Another header than this is refused."""
    key, certificate = folder / "tls.key", folder / "ca.crt"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=IP:127.0.0.1")
    run("openssl", "req", "-x509", *curve, *names, "-keyout", key, "-out", certificate)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == header
            self.send_response(status if allowed else 401)
            self.end_headers()
            self.wfile.write((answer if allowed else "who are you?").encode())

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
