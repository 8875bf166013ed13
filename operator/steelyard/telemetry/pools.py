"""The metrics of each pool: who has how much of it."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "steelyard_operator_pool"


class PoolTelemetry:
    """Who has how much of each pool."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", what, ["pool"], registry=registry)

        self._gauges = {
            "gpus": gauge("gpus", "GPUs of a pool"),
            "granted": gauge("gpus_granted", "GPUs of a pool that jobs may hold"),
            "borrowed": gauge("gpus_borrowed", "GPUs of a pool that jobs hold beyond their guarantees"),
            "used": gauge("gpus_used", "GPUs of a pool that bound pods hold"),
            "jobs": gauge("jobs", "Jobs that want or hold GPUs of a pool"),
            "waiting": gauge("jobs_waiting", "Jobs that wait for their smallest allocation"),
            "longest": gauge("longest_wait_seconds", "How long the job that waits longest has waited"),
        }
        self._grants = Counter(
            f"{PREFIX}_grants",
            "Grants that changed, by direction: raised, lowered",
            ["pool", "change"],
            registry=registry,
        )

    def show(self, pool: str, figures: Mapping[str, float], raised: int, lowered: int) -> None:
        """The state of a pool after a round, in the words of `pools.report.figures`."""
        for name, gauge in self._gauges.items():
            gauge.labels(pool).set(figures[name])
        self._grants.labels(pool, "raised").inc(raised)
        self._grants.labels(pool, "lowered").inc(lowered)

    def forget(self, pool: str) -> None:
        """A pool that is gone has no figures."""
        for gauge in self._gauges.values():
            gauge.remove(pool)
        for change in ("raised", "lowered"):
            self._grants.remove(pool, change)
