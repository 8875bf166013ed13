"""The operator itself: does it look at every job in time, and do the API server and Prometheus answer it."""

from __future__ import annotations

from typing import Any

from monitoring.page import ANY, Row, choice, page, scraped_by
from monitoring.panels import BYTES, COUNT, PER_SECOND, SECONDS, SHARE, Panel, Query, figure, graph
from monitoring.promql import SCRAPED, increase, of_operator, quantile, rate, share, total

RANKS = ((0.5, "median"), (0.99, "99th percentile"))


def operator() -> dict[str, Any]:
    pods = choice(
        "pod",
        "Pod",
        "Pods of the operator",
        f"label_values(steelyard_operator_lease_held{{{SCRAPED}}}, pod)",
        every=ANY,
    )
    return page(
        "operator",
        "Operator",
        "The operator: rounds over jobs and pools, the API server, Prometheus.",
        (*scraped_by(), pods),
        Row("Now", _now()),
        Row("Rounds", _rounds()),
        Row("API server", _api()),
        Row("Prometheus", _prometheus()),
        Row("Process", _process()),
    )


def _own(metric: str, **labels: str) -> str:
    return of_operator(metric, pod="~$pod", **labels)


def _failed(metric: str, outcome: str) -> str:
    return share(total(rate(_own(metric, outcome=outcome))), total(rate(_own(metric))))


def _now() -> tuple[Panel, ...]:
    late = f"time() - min(steelyard_job_last_tick_timestamp_seconds{{{SCRAPED}}})"
    return (
        figure(
            "Lease",
            "Operators that may act: exactly one, where there is one installation.",
            COUNT,
            Query(total(_own("lease_held"))),
            steps=((0, "red"), (1, "green"), (2, "red")),
            nothing="no operator is scraped",
        ),
        figure("Jobs under control", "Jobs that the operator looks after.", COUNT, Query(total(_own("jobs")))),
        figure(
            "Longest silence of a job",
            "Time since the operator looked at the job that it has not looked at for longest.",
            SECONDS,
            Query(late),
            steps=((0, "green"), (120, "orange"), (300, "red")),
            nothing="no jobs",
        ),
        figure(
            "Silence of the watches",
            "Longest time without a word on a watch; from 90 s on it is opened again.",
            SECONDS,
            Query(f"max({_own('watch_silence_seconds')})"),
            steps=((0, "green"), (90, "orange")),
        ),
        figure(
            "Requests that failed",
            "Of the requests to the API server, those that were refused or not answered.",
            SHARE,
            Query(_failed("api_requests_total", "~4..|5..|unreachable")),
            steps=((0, "green"), (0.05, "orange"), (0.2, "red")),
        ),
        figure(
            "Reads that failed",
            "Of the reads of jobs' metrics, those that Prometheus did not answer.",
            SHARE,
            Query(_failed("metrics_reads_total", "!ok")),
            steps=((0, "green"), (0.05, "orange"), (0.2, "red")),
            nothing="no jobs",
        ),
    )


def _rounds() -> tuple[Panel, ...]:
    return (
        graph(
            "Rounds over jobs",
            "Rounds by how they ended: done, retried (the API server was away), not-leader, bug.",
            PER_SECOND,
            Query(total(rate(_own("ticks_total")), "result"), "{{result}}"),
        ),
        graph(
            "Time of a round over a job",
            "From the look at the job to its written status.",
            SECONDS,
            *(Query(quantile(rank, _own("tick_seconds_bucket")), name) for rank, name in RANKS),
        ),
        graph(
            "Revisions",
            "Revisions recorded since the point before, by action.",
            COUNT,
            Query(total(increase(_own("revisions_total")), "action"), "{{action}}"),
            width=8,
            nothing="none was recorded",
        ),
        graph(
            "Rounds over pools",
            "Rounds by how they ended.",
            PER_SECOND,
            Query(total(rate(_own("pool_ticks_total")), "result"), "{{result}}"),
            width=8,
            nothing="there is no RLPool",
        ),
        graph(
            "Time of a round over a pool",
            "From the look at the pool to its written status.",
            SECONDS,
            *(Query(quantile(rank, _own("pool_tick_seconds_bucket")), name) for rank, name in RANKS),
            width=8,
            nothing="there is no RLPool",
        ),
        graph(
            "Grants that changed",
            "Grants that were raised or lowered since the point before, by pool.",
            COUNT,
            Query(total(increase(_own("pool_grants_total")), "pool", "change"), "{{pool}} {{change}}"),
            width=24,
            nothing="there is no RLPool",
        ),
    )


def _api() -> tuple[Panel, ...]:
    return (
        graph(
            "Requests",
            "Requests by verb and outcome: a status, or unreachable.",
            PER_SECOND,
            Query(total(rate(_own("api_requests_total")), "verb", "outcome"), "{{verb}} {{outcome}}"),
        ),
        graph(
            "Time until the API server answers, 99th percentile",
            "By verb; a watch is answered when it begins.",
            SECONDS,
            Query(quantile(0.99, _own("api_request_seconds_bucket"), "verb"), "{{verb}}"),
        ),
    )


def _prometheus() -> tuple[Panel, ...]:
    return (
        graph(
            "Reads of metrics",
            "Reads of a job's metrics: ok, Unreachable or BadResponse. Jobs share the queries of one interval.",
            PER_SECOND,
            Query(total(rate(_own("metrics_reads_total")), "outcome"), "{{outcome}}"),
        ),
        graph(
            "Time of a read",
            "Time of one read of a job's metrics; most are answered by what another job has just asked.",
            SECONDS,
            *(Query(quantile(rank, _own("metrics_read_seconds_bucket")), name) for rank, name in RANKS),
        ),
    )


def _process() -> tuple[Panel, ...]:
    """Every Python process exports these; those of the operator are on the target that has its Lease."""
    mine = f" and on (job, instance) {_own('lease_held')}"

    def process(metric: str) -> str:
        return f'{metric}{{{SCRAPED}, pod=~"$pod"}}'

    return (
        graph(
            "CPU",
            "CPU time of the operator.",
            "suffix: cores",
            Query(f"{rate(process('process_cpu_seconds_total'))}{mine}", "{{pod}}"),
            width=8,
        ),
        graph(
            "Memory",
            "Resident memory of the operator.",
            BYTES,
            Query(f"{process('process_resident_memory_bytes')}{mine}", "{{pod}}"),
            width=8,
        ),
        graph(
            "Age of the process",
            "Time since the operator started; it falls when the operator is restarted.",
            SECONDS,
            Query(f"(time() - {process('process_start_time_seconds')}){mine}", "{{pod}}"),
            width=8,
        ),
    )
