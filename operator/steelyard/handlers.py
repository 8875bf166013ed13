"""What kopf calls: events of jobs go to the store, nothing else.

Only `on.event`: it leaves no finalizer and no annotation on the user's object, and the loop is level-triggered anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from steelyard.api.names import GROUP, JOB_PLURAL, VERSION
from steelyard.cluster import kinds
from steelyard.cluster.informer import Sink


def register(
    registry: kopf.OperatorRegistry, sink: Sink, login: Callable[..., Any], stop: Callable[[], Awaitable[None]]
) -> None:
    """Add our handlers to a registry of our own; kopf's global one is for scripts.

    `stop` ends what we started meanwhile: kopf waits for every task of its time before it ends itself.
    """

    async def authenticate(**kwargs: Any) -> Any:
        return login(**kwargs)

    async def job_event(event: Any, **_: Any) -> None:
        obj = dict(event["object"])
        if event["type"] == "DELETED":
            metadata = obj["metadata"]
            version = int(metadata["resourceVersion"])
            sink.remove(kinds.JOB, metadata["namespace"], metadata["name"], metadata["uid"], version)
        else:
            sink.put(kinds.JOB, obj)

    async def cleanup(**_: Any) -> None:
        await stop()

    kopf.on.login(registry=registry)(authenticate)
    kopf.on.cleanup(registry=registry)(cleanup)
    kopf.on.event(GROUP, VERSION, JOB_PLURAL, registry=registry)(job_event)


def settings(*, clusterwide: bool) -> kopf.OperatorSettings:
    """kopf without what we do not use: no events of its own, no scanning beyond need, short time-outs.

    An operator of single namespaces needs no right to watch namespaces and CRDs: all it serves is named and was read.
    """
    chosen = kopf.OperatorSettings()
    chosen.scanning.disabled = not clusterwide
    chosen.posting.enabled = False
    chosen.networking.request_timeout = 20
    chosen.watching.server_timeout = 300
    chosen.process.ultimate_exiting_timeout = 10
    return chosen
