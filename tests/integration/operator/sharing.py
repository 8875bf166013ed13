"""Jobs that ask a pool for GPUs."""

from __future__ import annotations

from typing import Any

from tests.builders import pool_manifest
from tests.integration.server import Server


def create(server: Server, name: str, namespace: str) -> None:
    """A pool of six GPUs for one namespace: `high` goes before `low`."""
    changes = {"gpus": 6, "queues.0.namespaces": [namespace], "queues.1.namespaces": [namespace]}
    server.apply([pool_manifest(changes, name=name)])


def asks(pool: str, queue: str, samplers: int) -> dict[str, Any]:
    """Changes of a job that wants this many whole GPUs for sampling, and two more, of the pool's queue."""
    fixed = {"mode": "Fixed", "intervalSeconds": 1, "fixed": {"sampler": {"whole": samplers}}}
    return {"pool": {"name": pool, "queue": queue}, "scaling": fixed, "budget.gpus": 8}
