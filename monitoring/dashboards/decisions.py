"""Decisions of one or many jobs: which rule limits them, what moves were worth, what is held, on how fresh figures."""

from __future__ import annotations

from typing import Any

from monitoring.dashboards.shared import (
    EACH_JOB,
    NAME,
    NONE_JUDGED,
    deciding_rule,
    gain_of_the_last_move,
    metrics_age,
)
from monitoring.page import Row, jobs, moves_and_verdicts, namespaces, page, scraped_by
from monitoring.panels import (
    COUNT,
    PER_SECOND,
    SECONDS,
    SHARE,
    TIME,
    Column,
    Panel,
    Query,
    bars,
    figure,
    graph,
    lanes,
    rows,
)
from monitoring.promql import JOB, WINDOW, most, of_jobs, rate, share, told, total


def decisions() -> dict[str, Any]:
    return page(
        "decisions",
        "Decisions",
        "What the operator decided, by which rule, on how fresh figures, and what its moves were worth.",
        (*scraped_by(), namespaces(every=True), jobs(every=True)),
        Row("Which rule decides", _rules()),
        Row("What moves were worth", _worth()),
        Row("What was asked for, and what is there", _replicas()),
        Row("Inputs", _inputs()),
        marks=moves_and_verdicts(),
    )


def _rules() -> tuple[Panel, ...]:
    counted = rate(of_jobs("decisions_total"))
    return (
        deciding_rule(EACH_JOB),
        graph(
            "Share of rounds by rule",
            "Of all rounds, how many each rule decided.",
            SHARE,
            Query(f"{total(counted, 'kind')} / ignoring (kind) group_left () {total(counted)}", "{{kind}}"),
            stacked=True,
            most=1,
        ),
        lanes(
            "What reallocation can do",
            "Reallocate, FixFirst (a symptom that no allocation cures) or NoReallocation (nothing worth its cost).",
            Query(told("recommendation", *JOB, "remedy"), f"{NAME} {{{{remedy}}}}"),
            width=12,
            true="recommended",
            color="purple",
            nothing="too little is known, or a move is judged",
        ),
        lanes(
            "Symptoms",
            "What the figures show to be wrong, and where.",
            Query(
                told("finding", *JOB, "symptom", "stage"),
                f"{NAME} {{{{symptom}}}} {{{{stage}}}}",
            ),
            true="shows",
            color="orange",
            nothing="nothing shows",
        ),
    )


def _worth() -> tuple[Panel, ...]:
    return (
        figure(
            "Moves that stayed",
            "Of the judged revisions in the ledgers, those that were kept.",
            SHARE,
            Query(share(total(of_jobs("revisions", verdict="Kept")), total(of_jobs("revisions", verdict="!Unjudged")))),
            width=6,
            nothing=NONE_JUDGED,
        ),
        figure(
            "Newest move",
            "When a stage of these jobs was moved last.",
            TIME,
            Query(f"{told('last_move_timestamp_seconds')} * 1000"),
            width=6,
            nothing="none was moved",
        ),
        figure(
            "Newest verdict",
            "When a move of these jobs was judged last.",
            TIME,
            Query(f"{told('last_verdict_timestamp_seconds')} * 1000"),
            width=6,
            nothing=NONE_JUDGED,
        ),
        figure(
            "Error of the predicted gain",
            "Predicted less measured gain of the moves judged last, mean over the jobs; below zero they brought more.",
            SHARE,
            Query(f"avg({of_jobs('predicted_gain_ratio')} - {of_jobs('measured_gain_ratio')})"),
            width=6,
            nothing=NONE_JUDGED,
        ),
        bars(
            "Revisions by origin and verdict",
            "Revisions in the ledgers, by who made them and what they were worth.",
            COUNT,
            Query(total(of_jobs("revisions"), "origin", "verdict"), "{{origin}} {{verdict}}"),
            width=8,
        ),
        gain_of_the_last_move(EACH_JOB),
        graph(
            "Cost of the last move",
            "Cost of the move that was judged last, in seconds of the throughput before it.",
            SECONDS,
            Query(told("predicted_cost_seconds", *JOB), f"{NAME} predicted"),
            Query(told("measured_cost_seconds", *JOB), f"{NAME} measured"),
            width=8,
            nothing=NONE_JUDGED,
        ),
        rows(
            "Holds",
            "Jobs whose allocation a user holds. A hold without end stays until somebody ends it.",
            Column("Held since", f"{told('hold_since_timestamp_seconds', *JOB)} * 1000", TIME),
            Column("Ends", f"{told('hold_expires_timestamp_seconds', *JOB)} * 1000", TIME),
            labels={"rl_namespace": "Namespace", "rl_job": "Job"},
            nothing="nothing is held",
        ),
    )


def _replicas() -> tuple[Panel, ...]:
    desired, ready = (total(of_jobs("replicas", state=state), *JOB, "stage") for state in ("desired", "ready"))
    return (
        graph(
            "Replicas asked for",
            "Replicas that the active revisions ask for.",
            COUNT,
            Query(desired, f"{NAME} {{{{stage}}}}"),
        ),
        graph(
            "Replicas still missing",
            "Replicas asked for that are not ready: pending, starting, or not to be had.",
            COUNT,
            Query(f"{desired} - {ready}", f"{NAME} {{{{stage}}}}"),
            least=None,
        ),
        graph(
            "Moves",
            "Revisions that came into force since the point before.",
            COUNT,
            Query(most(f"changes({of_jobs('revision')}[{WINDOW}])", *JOB), NAME),
            width=24,
        ),
    )


def _inputs() -> tuple[Panel, ...]:
    return (
        metrics_age(EACH_JOB, width=12),
        lanes(
            "Metrics complete",
            "Whether every ready pod has fresh metrics: condition MetricsAvailable.",
            Query(told("condition", *JOB, condition="MetricsAvailable"), NAME),
            width=12,
            color="green",
        ),
        graph(
            "Utilization as estimated",
            "Share of each stage's slot time that is work: what decisions rest on.",
            SHARE,
            Query(told("stage_utilization_ratio", *JOB, "stage"), f"{NAME} {{{{stage}}}}"),
            most=1,
        ),
        graph(
            "Capacity as estimated",
            "Trajectories per second that the present replicas of each stage could carry.",
            PER_SECOND,
            Query(told("stage_capacity_trajectories_per_second", *JOB, "stage"), f"{NAME} {{{{stage}}}}"),
        ),
    )
