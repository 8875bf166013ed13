"""The metrics of each job. The controller shows what a tick learnt; a job that is gone has no series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from steelyard.api import JobStatus
from steelyard.cluster.records import JobKey
from steelyard.status import Tick
from steelyard.telemetry.families import JOB_LABELS, OF_ROUND, OF_STATUS, PREFIX, Family, Round, Source

DECISIONS = f"{PREFIX}_decisions"
DECISIONS_WHAT = "Rounds by what they decided, and by which rule"
DECISION_LABELS = ("action", "kind")

Told = dict[str, dict[tuple[str, ...], Sample]]
"""Family -> label values -> sample."""


class JobTelemetry(Collector):
    """What is known of every job now. Samples are made when they are told, for a scrape to be cheap."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._told: dict[JobKey, Told] = {}
        self._decisions: dict[JobKey, Counter[tuple[str, str]]] = {}
        registry.register(self)

    def show(self, key: JobKey, tick: Tick, status: JobStatus) -> None:
        """What one tick learnt, and the status it wrote."""
        before = self._told.get(key, {})
        decision = tick.plan.decision
        self._decisions.setdefault(key, Counter())[decision.action.value, decision.kind] += 1
        self._told[key] = {**_told(key, OF_STATUS, status, before), **_told(key, OF_ROUND, Round(tick, status), before)}

    def show_broken(self, key: JobKey, status: JobStatus) -> None:
        """All that is known of a job whose spec is invalid."""
        self._told[key] = _told(key, OF_STATUS, status, {})

    def forget(self, key: JobKey) -> None:
        self._told.pop(key, None)
        self._decisions.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        told = list(self._told.values())  # a scrape has a thread of its own, and jobs come and go meanwhile
        for name, what in ((family.name, family.what) for families in (OF_STATUS, OF_ROUND) for family in families):
            metric = Metric(f"{PREFIX}_{name}", what, "gauge")
            metric.samples = [sample for one in told for sample in one.get(name, {}).values()]
            yield metric
        yield self._counted()

    def _counted(self) -> Metric:
        metric = Metric(DECISIONS, DECISIONS_WHAT, "counter")
        for key, counts in list(self._decisions.items()):
            for values, n in list(counts.items()):
                metric.samples.append(_sample(f"{DECISIONS}_total", key, DECISION_LABELS, values, n))
        return metric


def _told(key: JobKey, families: Iterable[Family[Source]], source: Source, before: Told) -> Told:
    told: Told = {}
    for family in families:
        samples = dict(before.get(family.name, {})) if family.lasting else {}
        for values, value in family.read(source):
            if value is not None:
                samples[values] = _sample(f"{PREFIX}_{family.name}", key, family.labels, values, value)
        told[family.name] = samples
    return told


def _sample(name: str, key: JobKey, labels: tuple[str, ...], values: tuple[str, ...], value: float) -> Sample:
    return Sample(name, dict(zip((*JOB_LABELS, *labels), (*key, *values), strict=True)), float(value))
