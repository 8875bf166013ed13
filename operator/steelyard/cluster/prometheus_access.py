"""How the command line reaches Prometheus: at a URL, or as a service through the API server with the user's rights.

What it opens is an httpx client for `steelyard.metrics.Prometheus`, which runs unchanged.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from steelyard.cluster.errors import Forbidden
from steelyard.cluster.kinds import BY_NAME, Object
from steelyard.cluster.kubectl import Kubectl
from steelyard.cluster.kubectl_errors import meaning
from steelyard.cluster.places import NoPrometheus, Place, place_of

OPERATOR = "app.kubernetes.io/name=steelyard,app.kubernetes.io/component=operator"
"""Selects the operator's Deployment."""
USUAL_NAMESPACE = "steelyard-system"
VARIABLE = "STEELYARD_PROMETHEUS_URL"
FOLDER = "STEELYARD_PROMETHEUS_SECRET"
"""Of the user's own environment: a folder like the one that the operator's setting of this name names."""
SECONDS = 20.0
WRITES = "^(POST|PUT|PATCH|DELETE)$"


def operators(kubectl: Kubectl) -> list[Object]:
    """The operator's Deployments: of all namespaces where they may be listed, else of its usual one."""
    try:
        return kubectl.objects(BY_NAME["Deployment"], selector=OPERATOR)
    except Forbidden:
        return kubectl.objects(BY_NAME["Deployment"], USUAL_NAMESPACE, selector=OPERATOR)


def setting(deployment: Object, variable: str) -> str | None:
    """What an operator's Deployment says of one of its settings; None when it leaves it at its default."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    env = (one for container in containers for one in container.get("env") or ())
    return next((one["value"] for one in env if one["name"] == variable and one.get("value")), None)


def operators_place(kubectl: Kubectl) -> Place:
    """Where the operator itself reads, as its Deployment says. Raises ClusterError, or NoPrometheus."""
    for deployment in operators(kubectl):
        if url := setting(deployment, VARIABLE):
            return place_of(url, from_inside=True)
    raise NoPrometheus(f"no Deployment with the label {OPERATOR} says {VARIABLE}: name the place with --prometheus")


@asynccontextmanager
async def opened(place: Place, kubectl: Kubectl) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose base URL is Prometheus."""
    from steelyard.metrics.connect import KEPT

    if not place.in_cluster:
        async with _with_secret(place.base) as client:
            yield client
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:  # nobody else may open it
        socket = Path(folder) / "api"
        options = [
            f"--unix-socket={socket}",
            f"--accept-paths=^{re.escape(place.base)}/",
            f"--reject-methods={WRITES}",
        ]
        with kubectl.process("proxy", *options) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            if not process.stdout.readline():  # "Starting to serve on ..." once it listens
                raise meaning(process.stderr.read())
            transport = _Api(httpx.AsyncHTTPTransport(uds=str(socket), limits=KEPT))
            url = f"http://localhost{place.base}"  # the only host that `kubectl proxy` accepts
            async with httpx.AsyncClient(base_url=url, transport=transport, timeout=SECONDS, trust_env=False) as client:
                yield client


def _with_secret(url: str) -> httpx.AsyncClient:
    """With what the user's folder says that this Prometheus asks for."""
    from steelyard.metrics.connect import connect

    folder = os.environ.get(FOLDER)
    try:
        if folder and not Path(folder).is_dir():
            raise NotADirectoryError(f"{folder} is no folder")
        return connect(url, SECONDS, Path(folder) if folder else None)
    except OSError as error:  # that of a certificate among them
        raise NoPrometheus(f"{FOLDER}: {error}") from error


async def clock(client: httpx.AsyncClient) -> float:
    """Unix seconds by Prometheus' own clock: the reader's may be wrong. NoPrometheus when it does not answer."""
    try:
        response = await client.get("/api/v1/query", params={"query": "time()"})
        return float(response.json()["data"]["result"][0])
    except httpx.HTTPError as error:
        raise NoPrometheus(f"Prometheus does not answer: {error or type(error).__name__}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise NoPrometheus(f"{response.url.host}: what answers is no Prometheus ({response.status_code})") from error


class _Api(httpx.AsyncBaseTransport):
    """Tells what the API server itself answers from what Prometheus does."""

    def __init__(self, wrapped: httpx.AsyncBaseTransport) -> None:
        self._wrapped = wrapped

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._wrapped.handle_async_request(request)
        if response.status_code < 400:
            return response
        await response.aread()
        if said := _status(response):
            raise httpx.ConnectError(said, request=request)
        return response

    async def aclose(self) -> None:
        await self._wrapped.aclose()


def _status(response: httpx.Response) -> str | None:
    """The API server's words, None when Prometheus answered."""
    try:
        body = response.json()
        return str(body["message"]) if body["kind"] == "Status" else None
    except (ValueError, LookupError, TypeError):
        return response.text.strip() or None if response.status_code in (403, 502, 503) else None
