"""The exporter's process. When the bus server does not answer, the series are absent: absent is not zero."""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from steelyard_workers.drain import Drain
from steelyard_workers.messages import Hop
from steelyard_workers.serve import Health, serving, worker_app

MONITOR_SECONDS = 2.0

log = logging.getLogger(__name__)


class BufferCollector(Collector):
    """Depth and capacity of each hop's stream, asked for at scrape time."""

    def __init__(self, monitor: str) -> None:
        self._url = f"{monitor}/jsz"

    def collect(self) -> Iterable[Metric]:
        try:
            answer = httpx.get(self._url, params={"streams": "true", "config": "true"}, timeout=MONITOR_SECONDS)
            account = answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the bus server does not say how full it is: %s", error)
            return []
        return families(account)


def families(account: Mapping[str, Any]) -> list[Metric]:
    """The metrics of a /jsz answer."""
    depth = GaugeMetricFamily("steelyard_buffer_depth", "Messages in the buffer, held ones included", labels=["buffer"])
    capacity = GaugeMetricFamily("steelyard_buffer_capacity", "Bound of the buffer", labels=["buffer"])
    for hop, messages, bound in buffers(account):
        depth.add_metric([hop.value], messages)
        capacity.add_metric([hop.value], bound)
    return [depth, capacity]


def buffers(account: Mapping[str, Any]) -> list[tuple[Hop, int, int]]:
    """(hop, messages, bound) of every hop that a /jsz answer tells of."""
    details = [stream for part in account.get("account_details") or () for stream in part.get("stream_detail") or ()]
    by_name = {stream["name"]: stream for stream in details}
    return [
        (hop, by_name[hop.stream]["state"]["messages"], by_name[hop.stream]["config"]["max_msgs"])
        for hop in Hop
        if hop.stream in by_name
    ]


async def serve(monitor: str, port: int) -> None:
    """Answer Prometheus until asked to stop."""
    health, registry = Health(), CollectorRegistry()
    registry.register(BufferCollector(monitor))
    async with Drain().listening() as drain, serving(worker_app(health, registry), port):
        health.ready()
        await drain.requested.wait()


def run() -> None:
    """Read the server next door."""
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve("http://localhost:8222", int(os.environ.get("PORT", "8000"))))
