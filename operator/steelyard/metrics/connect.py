"""The connection to Prometheus, with what it asks for; `python -m steelyard` opens it."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from pathlib import Path

import httpx

HEADER, AUTHORITY = "authorization", "ca.crt"
"""Files that the folder of a Secret may have: the header of that name, and whom to trust instead of the public ones."""

KEPT = httpx.Limits(keepalive_expiry=60.0)
"""Whoever asks every few seconds keeps its connections; httpx would close them after five."""


def connect(url: str, timeout: float, secret: Path | None) -> httpx.AsyncClient:
    """A client whose base URL is Prometheus; `secret` is the folder with what it asks for."""
    return httpx.AsyncClient(
        base_url=url,
        timeout=timeout,
        follow_redirects=False,
        limits=KEPT,
        auth=_FromFile(secret / HEADER) if secret else None,
        verify=trusted(secret) or True,
    )


def trusted(secret: Path | None) -> ssl.SSLContext | None:
    """Whom the folder says to trust, None when it says nothing; ssl.SSLError when its file holds no certificate."""
    if secret is None or not (secret / AUTHORITY).exists():
        return None
    return ssl.create_default_context(cafile=secret / AUTHORITY)


class _FromFile(httpx.Auth):
    """Reads the header anew for each request: tokens are replaced while the operator runs."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._file.exists():
            request.headers["Authorization"] = self._file.read_text().strip()
        yield request
