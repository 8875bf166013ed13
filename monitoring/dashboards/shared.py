"""What several dashboards show: the same panel of one job, or of each of many."""

from __future__ import annotations

from dataclasses import dataclass

from monitoring.panels import SECONDS, SHARE, Panel, Query, graph, lanes
from monitoring.promql import JOB, age_of_metrics, told

NAME = "{{rl_namespace}}/{{rl_job}}"
IDLE = "GPUs that a stage holds, times the share of its slots' time that is no work"
NONE_JUDGED = "no move was judged"


@dataclass(frozen=True)
class Of:
    """Whose series a panel shows: the labels to tell jobs apart by, and what a series' name begins with."""

    by: tuple[str, ...] = ()
    prefix: str = ""


ONE_JOB, EACH_JOB = Of(), Of(JOB, f"{NAME} ")


def deciding_rule(of: Of) -> Panel:
    return lanes(
        "Rule that decided",
        "The rule that decided each round: why replicas were moved, or not.",
        Query(told("decision", *of.by, "kind"), f"{of.prefix}{{{{kind}}}}"),
        true="decided",
    )


def gain_of_the_last_move(of: Of) -> Panel:
    return graph(
        "Gain of the last move",
        "What the move that was judged last was expected to bring, and what it brought.",
        SHARE,
        Query(told("predicted_gain_ratio", *of.by), f"{of.prefix}predicted"),
        Query(told("measured_gain_ratio", *of.by), f"{of.prefix}measured"),
        width=8,
        least=None,
        nothing=NONE_JUDGED,
    )


def metrics_age(of: Of, width: int) -> Panel:
    return graph(
        "Age of the metrics",
        "Time since the newest sample that the operator has read of each stage. Nothing is moved on old ones.",
        SECONDS,
        Query(age_of_metrics(), f"{of.prefix}{{{{stage}}}}"),
        width=width,
    )
