"""The catalog knows every metric, and queries use what it knows of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from monitoring.catalog import FOREIGN, Described, of_jobs, of_operator, of_workers
from monitoring.dashboards import dashboards
from monitoring.page import every_query
from monitoring.reference import reference
from steelyard.balance import signals
from tests.unit.monitoring.rules import is_known
from tests.unit.monitoring.test_alerts import ALERTS

OTHERS = [metric for metrics in FOREIGN.values() for metric in metrics]


@pytest.mark.parametrize("metric", signals.ALL)
def test_what_the_operator_reads_is_in_the_catalog(metric: str) -> None:
    assert is_known(metric) or metric.startswith("steelyard_")
    assert any(metric.startswith(one.name) for one in of_workers()) or not metric.startswith("steelyard_")


@pytest.mark.parametrize("metric", OTHERS)
def test_a_metric_of_others_is_listed_because_somebody_reads_it(metric: str) -> None:
    asked = [expression for board in dashboards().values() for _, expression in every_query(board)]
    assert any(metric in text for text in (*asked, *(alert.expression for alert in ALERTS), *signals.ALL))


@pytest.mark.parametrize("of", [of_workers, of_operator, of_jobs])
def test_every_metric_of_ours_is_told_once_with_its_labels_and_words(of: Callable[[], Sequence[Described]]) -> None:
    page = reference()
    for metric in of():
        (line,) = (line for line in page.splitlines() if line.startswith((f"| `{metric.name}`", f"| `{metric.name}{{")))
        assert metric.what
        assert metric.what in line
        assert all(label in line for label in metric.labels if not label.startswith("rl_"))


def test_no_label_of_a_job_collides_with_what_prometheus_sets() -> None:
    for metric in of_jobs():
        assert metric.labels[:2] == ("rl_namespace", "rl_job")
        assert not {"namespace", "job", "pod", "instance", "cluster"} & set(metric.labels)
