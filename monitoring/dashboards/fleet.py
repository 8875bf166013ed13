"""All jobs of a cluster: which of them need somebody, who has the GPUs, and what is wasted."""

from __future__ import annotations

from typing import Any

from monitoring.dashboards.shared import IDLE, NAME
from monitoring.page import Row, namespaces, page, scraped_by
from monitoring.panels import (
    COUNT,
    GPU_HOURS,
    GPUS,
    PER_SECOND,
    SECONDS,
    SHARE,
    Column,
    Panel,
    Query,
    bars,
    figure,
    graph,
    rows,
)
from monitoring.promql import JOB, gpu_hours, idle, most, of_fleet, of_operator, per, total

IDLE_GPUS = idle(of_fleet)
JOB_PAGE = (
    "/d/steelyard-job?${datasource:queryparam}&${cluster:queryparam}&${job:queryparam}"
    "&var-namespace=${__data.fields.Namespace}&var-rl_job=${__data.fields.Job}&${__url_time_range}"
)


def fleet() -> dict[str, Any]:
    return page(
        "fleet",
        "Fleet",
        "All jobs: which need somebody, who has the GPUs, and what is wasted.",
        (*scraped_by(), namespaces(every=True)),
        Row("Now", (*_now(), _jobs())),
        Row("GPUs", _gpus()),
        Row("Balance", _balance()),
        Row("Pools", _pools()),
    )


def _now() -> tuple[Panel, ...]:
    stuck = of_fleet("condition", condition="Stalled")
    waits = of_fleet("condition", condition="QuotaReserved")
    return (
        figure(
            "Jobs under control",
            "Jobs that the operator looks after.",
            COUNT,
            Query(f"count({of_fleet('info')})"),
            nothing="none",
        ),
        figure(
            "Jobs that are stuck",
            "Jobs that only a person can help: condition Stalled.",
            COUNT,
            Query(total(stuck)),
            steps=((0, "green"), (1, "red")),
            nothing="none",
        ),
        figure(
            "Jobs without quota",
            "Jobs whose pool, quota or queue lets them have no more pods: condition QuotaReserved is false.",
            COUNT,
            Query(total(f"1 - {waits}")),
            steps=((0, "green"), (1, "orange")),
            nothing="none",
        ),
        figure("GPUs in use", "GPUs that bound pods hold.", GPUS, Query(total(of_fleet("gpus_used")))),
        figure(
            "GPUs idle",
            f"{IDLE}, of all GPUs in use.",
            SHARE,
            Query(per(total(IDLE_GPUS), total(of_fleet("gpus_used")))),
            steps=((0.0, "green"), (0.3, "orange"), (0.6, "red")),
        ),
        figure(
            "GPU-hours wasted", f"{IDLE}, summed over the shown time.", GPU_HOURS, Query(total(gpu_hours(IDLE_GPUS)))
        ),
    )


def _jobs() -> Panel:
    decision = total(of_fleet("decision"), *JOB, "kind")
    return rows(
        "Jobs",
        "Every job; its name leads to its own dashboard.",
        Column("Phase", total(of_fleet("phase"), *JOB, "phase"), hidden=True),
        Column("Trajectories/s", total(of_fleet("trajectories_per_second"), *JOB), PER_SECOND),
        Column("GPUs", total(of_fleet("gpus_used"), *JOB)),
        Column("Budget", total(of_fleet("gpus_budget"), *JOB)),
        Column("GPUs idle", total(IDLE_GPUS, *JOB)),
        Column("GPU-hours wasted", total(gpu_hours(IDLE_GPUS), *JOB), GPU_HOURS),
        Column("Bottleneck", f"{total(of_fleet('bottleneck'), *JOB, 'stage')} == 1", hidden=True),
        Column("Rule", decision, hidden=True),
        Column("Revision", most(of_fleet("revision"), *JOB)),
        Column("Step", total(of_fleet("training_step"), *JOB)),
        labels={
            "rl_namespace": "Namespace",
            "rl_job": "Job",
            "phase": "Phase",
            "stage": "Bottleneck",
            "kind": "Rule that decided",
        },
        links={"Job": JOB_PAGE},
        nothing="no jobs",
    )


def _gpus() -> tuple[Panel, ...]:
    return (
        graph(
            "GPUs by job",
            "GPUs that bound pods hold.",
            GPUS,
            Query(total(of_fleet("gpus_used"), *JOB), NAME),
            stacked=True,
        ),
        graph(
            "GPUs idle by job",
            f"{IDLE}.",
            GPUS,
            Query(total(IDLE_GPUS, *JOB), NAME),
            stacked=True,
        ),
        bars(
            "GPU-hours wasted, ten worst",
            f"{IDLE}, summed over the shown time.",
            GPU_HOURS,
            Query(f"topk(10, {total(gpu_hours(IDLE_GPUS), *JOB)})", NAME),
        ),
        graph(
            "Trajectories per GPU-hour",
            "Trajectories that each job trains for each hour of a GPU.",
            COUNT,
            Query(
                per(f"3600 * {total(of_fleet('trajectories_per_second'), *JOB)}", total(of_fleet("gpus_used"), *JOB)),
                NAME,
            ),
        ),
    )


def _balance() -> tuple[Panel, ...]:
    return (
        graph(
            "Jobs by bottleneck",
            "Jobs by the stage that holds them back.",
            COUNT,
            Query(total(of_fleet("bottleneck"), "stage"), "{{stage}}"),
            width=8,
            stacked=True,
            nothing="none is known",
        ),
        graph(
            "Symptoms",
            "Jobs by what their figures show to be wrong.",
            COUNT,
            Query(f"count by (symptom) ({of_fleet('finding')})", "{{symptom}}"),
            width=8,
            stacked=True,
            nothing="nothing shows",
        ),
        graph(
            "Throughput",
            "Trajectories trained per second.",
            PER_SECOND,
            Query(total(of_fleet("trajectories_per_second"), *JOB), NAME),
            width=8,
        ),
    )


def _pools() -> tuple[Panel, ...]:
    none = "there is no RLPool"
    return (
        graph(
            "GPUs of the pools",
            "Of each RLPool: its GPUs, those that jobs may hold, those beyond guarantees, and those that pods hold.",
            GPUS,
            *(
                Query(most(of_operator(f"pool_gpus{what}"), "pool"), f"{{{{pool}}}}{words}")
                for what, words in (("", ""), ("_granted", " granted"), ("_borrowed", " borrowed"), ("_used", " used"))
            ),
            nothing=none,
        ),
        graph(
            "Jobs of the pools",
            "Of each RLPool: jobs that want or hold GPUs, and those that wait for their smallest allocation.",
            COUNT,
            Query(most(of_operator("pool_jobs"), "pool"), "{{pool}}"),
            Query(most(of_operator("pool_jobs_waiting"), "pool"), "{{pool}} waiting"),
            width=6,
            nothing=none,
        ),
        graph(
            "Longest wait",
            "How long the job that waits longest for its pool has waited.",
            SECONDS,
            Query(most(of_operator("pool_longest_wait_seconds"), "pool"), "{{pool}}"),
            width=6,
            nothing=none,
        ),
    )
