"""Every metric there is: ours as the code registers them, and those of others by source. Queries may use no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from steelyard.telemetry import Telemetry
from steelyard.telemetry.families import JOB_LABELS, OF_ROUND, OF_STATUS, PREFIX
from steelyard.telemetry.jobs import DECISION_LABELS, DECISIONS, DECISIONS_WHAT
from steelyard_workers.bus_exporter.run import families
from steelyard_workers.clock import Clock
from steelyard_workers.metrics import (
    BufferMetrics,
    ClockCollector,
    EpisodeMetrics,
    PolicyMetrics,
    RewardMetrics,
    StageMetrics,
    TrainMetrics,
)


@dataclass(frozen=True)
class Described:
    """One metric, as a reader knows it."""

    name: str
    """As in a query; of a histogram, without `_bucket`, `_sum` and `_count`."""
    kind: str
    what: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series in queries."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


def of_workers() -> tuple[Described, ...]:
    """What the four stages and the bus export."""
    registry = CollectorRegistry()
    StageMetrics("environment", Clock(), lambda: 0.0, registry)
    BufferMetrics("tasks", registry)
    EpisodeMetrics(registry)
    RewardMetrics(registry)
    PolicyMetrics(registry)
    TrainMetrics(registry)
    return (*_described(registry), *map(_of_family, families({})))


def of_operator() -> tuple[Described, ...]:
    """What the operator tells of itself and of pools."""
    return tuple(_described(Telemetry().registry))


def of_jobs() -> tuple[Described, ...]:
    """What the operator tells of each job."""
    gauges = [(one.name, one.what, one.labels) for families in (OF_STATUS, OF_ROUND) for one in families]
    return (
        *(Described(f"{PREFIX}_{name}", "gauge", what, (*JOB_LABELS, *labels)) for name, what, labels in gauges),
        Described(f"{DECISIONS}_total", "counter", DECISIONS_WHAT, (*JOB_LABELS, *DECISION_LABELS)),
    )


VLLM = {
    "vllm:generation_tokens_total": "tokens generated",
    "vllm:num_requests_running": "requests in the engine",
    "vllm:num_requests_waiting": "requests that wait for a place",
    "vllm:inter_token_latency_seconds": "time between two tokens, a histogram",
    "vllm:time_to_first_token_seconds": "time until the first token, a histogram",
    "vllm:kv_cache_usage_perc": "share of the KV cache in use, 0 to 1",
    "vllm:num_preemptions_total": "requests that lost their place in the KV cache",
}
CADVISOR = {
    "container_pressure_io_waiting_seconds_total": "time in which some task waited for storage",
    "container_pressure_io_stalled_seconds_total": "time in which all tasks waited for storage",
    "container_pressure_cpu_waiting_seconds_total": "time in which some task waited for a CPU",
    "container_pressure_memory_waiting_seconds_total": "time in which some task waited for memory",
    "container_cpu_usage_seconds_total": "CPU time",
    "container_memory_working_set_bytes": "memory that cannot be reclaimed",
}
KUBELET = {
    "kubelet_volume_stats_used_bytes": "fill of a claim, where the storage reports it",
    "kubelet_volume_stats_capacity_bytes": "size of a claim, where the storage reports it",
}
DCGM = {
    "DCGM_FI_DEV_FB_USED": "device memory in use, MiB",
    "DCGM_FI_DEV_FB_FREE": "device memory free, MiB",
}
CLIENT = {
    "process_cpu_seconds_total": "CPU time of the operator",
    "process_resident_memory_bytes": "memory of the operator",
    "process_start_time_seconds": "when the operator started",
}
FOREIGN: dict[str, dict[str, str]] = {
    "vLLM, from every sampler": VLLM,
    "the kubelet's `/metrics/cadvisor`": CADVISOR,
    "the kubelet's `/metrics`": KUBELET,
    "dcgm-exporter": DCGM,
    "prometheus_client, from the operator": CLIENT,
}
"""Source -> metric -> what it tells. Queries of dashboards and alerts use these and our own, and no others."""


def _described(registry: CollectorRegistry) -> Iterator[Described]:
    """Label names are private to the collectors of prometheus_client; a metric without a sample has no other trace."""
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            yield from (_of(metric, collector._labelnames) for metric in collector.describe())
        elif isinstance(collector, ClockCollector):
            yield from map(_of_family, collector.collect())


def _of_family(metric: Metric) -> Described:
    labels: tuple[str, ...] = metric._labelnames  # type: ignore[attr-defined]
    return _of(metric, labels)


def _of(metric: Metric, labels: tuple[str, ...]) -> Described:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return Described(name, metric.type, metric.documentation, tuple(labels))
