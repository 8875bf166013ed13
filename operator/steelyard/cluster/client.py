"""One connection to the API server for the whole operator: dicts in, dicts out, bounded in number and in time.

Writes pass a fence (`lease.py`): an operator that lost its Lease can read but not write.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from yaml import YAMLError

from steelyard.api.names import FIELD_MANAGER
from steelyard.cluster.errors import ClusterError, Unavailable, of_status
from steelyard.cluster.kinds import BY_NAME, Kind, Object

Count = Callable[[str, str, float], None]
"""Told of every request: HTTP verb, status or `unreachable`, and the seconds until then."""

REQUEST_SECONDS = 20.0
WATCH_SECONDS = 300
SILENCE_SECONDS = 90.0
"""A watch with bookmarks says something every minute; a longer silence is a dead connection."""
PAGE = 500
UNREADABLE = (kubernetes_config.ConfigException, OSError, YAMLError, TypeError, AttributeError, KeyError)
"""What the library's loader raises, or stumbles over, on a kubeconfig that is none."""


class NoCluster(Exception):
    """Nothing says where the API server is; the text says what was tried."""


class Lane(StrEnum):
    """Who may wait for whom: status writes must not queue behind a thousand creations."""

    BULK = "bulk"
    STATUS = "status"


class Patch(StrEnum):
    APPLY = "application/apply-patch+yaml"
    MERGE = "application/merge-patch+json"


def no_fence() -> float:
    """For clients that only read."""
    return math.inf


class Client:
    """Requests with one set of credentials. At most 32 are in flight, 8 of them kept for status."""

    def __init__(self, api: Any, count: Count) -> None:
        self._api = api
        self._count = count
        self._lanes = {Lane.BULK: asyncio.Semaphore(24), Lane.STATUS: asyncio.Semaphore(8)}
        self.fence: Callable[[], float] = no_fence
        """Seconds that a write which begins now may take; raises NotLeader when none may begin."""

    async def close(self) -> None:
        await self._api.close()

    async def get(self, path: str, params: dict[str, str] | None = None, lane: Lane = Lane.STATUS) -> Object:
        return await self._request("GET", path, params=params, lane=lane, fenced=False)

    async def create(self, kind: Kind, body: Object, lane: Lane = Lane.BULK) -> Object:
        return await self._request("POST", kind.path(body["metadata"]["namespace"]), body, lane=lane)

    async def apply(self, body: Object) -> Object:
        """Server-side apply of a child, taking the fields that are ours from whoever else changed them."""
        metadata = body["metadata"]
        path = BY_NAME[body["kind"]].path(metadata["namespace"], metadata["name"])
        return await self.patch(path, body, Patch.APPLY, params={"force": "true"})

    async def patch(
        self,
        path: str,
        body: Object,
        how: Patch,
        *,
        params: dict[str, str] | None = None,
        lane: Lane = Lane.BULK,
    ) -> Object:
        params = {"fieldManager": FIELD_MANAGER, **(params or {})}
        return await self._request("PATCH", path, body, content_type=how, params=params, lane=lane)

    async def delete(self, path: str, *, uid: str, propagation: str = "Background") -> None:
        """Delete the object that has this uid, not one that took its name since."""
        body = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        await self._request("DELETE", path, body)

    async def unfenced(self, method: str, path: str, body: Object | None = None, seconds: float = 5.0) -> Object:
        """For the Lease alone, which is what the fence is made of."""
        return await self._request(method, path, body, lane=Lane.STATUS, seconds=seconds, fenced=False)

    async def list_pages(self, path: str, selector: str) -> tuple[list[Object], str]:
        """Every object of a collection and the resourceVersion to watch from."""
        items: list[Object] = []
        params = {"limit": str(PAGE), "labelSelector": selector}
        while True:
            page = await self.get(path, params)
            items += page.get("items") or []
            if not (token := page["metadata"].get("continue")):
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = token

    async def watch(self, path: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        """Events as (type, object) until the server ends the watch; raises what an ERROR event means."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS), **params}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENCE_SECONDS)
        async with self._response("GET", path, params=params, timeout=timeout) as response:
            try:
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise of_status(
                            event["object"].get("code", 500), event["object"].get("message", "watch failed")
                        )
                    yield event["type"], event["object"]
            except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
                raise Unavailable(f"the watch of {path} broke: {error!r}") from error

    async def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        params: dict[str, str] | None = None,
        lane: Lane = Lane.BULK,
        seconds: float = REQUEST_SECONDS,
        fenced: bool = True,
    ) -> Object:
        async with self._lanes[lane]:
            # The fence is asked when the request goes out, however long that had to wait for its turn.
            timeout = aiohttp.ClientTimeout(total=min(seconds, self.fence()) if fenced else seconds)
            sent = self._response(method, path, body, content_type=content_type, params=params, timeout=timeout)
            async with sent as response:
                try:
                    answer: Object = await response.json(content_type=None)
                except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
                    raise Unavailable(f"{method} {path}: {error!r}") from error
                return answer

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        params: dict[str, str] | None = None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own time-outs tell connecting from reading
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        asked = time.monotonic()
        try:
            method, url, headers, body, _ = await self._api.param_serialize(
                method, path, query_params=list((params or {}).items()), header_params=headers, body=body,
                auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = await self._api.call_api(method, url, headers, body, _request_timeout=timeout)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._count(method, "unreachable", time.monotonic() - asked)
            raise Unavailable(f"{method} {path}: the API server does not answer: {error!r}") from error
        response: aiohttp.ClientResponse = answer.response
        async with response:
            self._count(method, str(response.status), time.monotonic() - asked)
            if response.status >= 400:
                raise await _error(method, path, response)
            yield response


async def _error(method: str, path: str, response: aiohttp.ClientResponse) -> ClusterError:
    try:
        said = json.loads(await response.text())
        message, details = said["message"], said.get("details") or {}
    except (ValueError, KeyError, TypeError, AttributeError, TimeoutError, aiohttp.ClientError):
        message, details = response.reason or "no reason given", {}
    causes = frozenset(cause.get("reason", "") for cause in details.get("causes") or ())
    return of_status(response.status, f"{method} {path}: {message}", causes)


async def connect(kubeconfig: Path | None, count: Count) -> Client:
    """A client with the pod's service account, or with a kubeconfig file when one is named. Raises NoCluster."""
    configuration = kubernetes_client.Configuration()
    try:
        if kubeconfig is None:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            kubeconfig.open().close()  # the loader would warn of a missing file and complain of its content
            await kubernetes_config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    except UNREADABLE as error:
        tried = f"kubeconfig {kubeconfig}" if kubeconfig else "the service account of a pod (no kubeconfig is named)"
        raise NoCluster(f"no cluster: tried {tried}: {' '.join(str(error).split())}") from error
    configuration.connection_pool_maxsize = 64
    return Client(kubernetes_client.ApiClient(configuration), count)
