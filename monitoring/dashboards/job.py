"""One job: does it learn, who waits for whom, what do its GPUs do, and what was decided."""

from __future__ import annotations

from typing import Any

from monitoring.dashboards.job_resources import IDLE_GPUS, gpus, machines, rollout
from monitoring.dashboards.shared import IDLE, ONE_JOB, deciding_rule, gain_of_the_last_move, metrics_age
from monitoring.page import Row, jobs, moves_and_verdicts, namespaces, page, scraped_by, stages
from monitoring.panels import (
    COUNT,
    PER_SECOND,
    SECONDS,
    SHARE,
    Panel,
    Query,
    figure,
    graph,
    lanes,
    word,
)
from monitoring.promql import (
    delta,
    of_pods,
    per,
    quantile,
    rate,
    share,
    told,
    total,
)

STAGE_SECONDS = "steelyard_stage_seconds_total"


def job() -> dict[str, Any]:
    return page(
        "job",
        "Job",
        "One AgenticRLJob: learning, waits, buffers, GPUs and the decisions about them.",
        (*scraped_by(), namespaces(every=False), jobs(every=False), stages()),
        Row("Now", _now()),
        Row("Who waits for whom", _waits()),
        Row("Flow", _flow()),
        Row("Learning", _learning()),
        Row("GPUs", gpus()),
        Row("Rollout", rollout()),
        Row("Decisions", _decisions()),
        Row("Machines", machines(), folded=True),
        marks=moves_and_verdicts(),
    )


def _now() -> tuple[Panel, ...]:
    progress = f"{told('training_step')} / {told('training_steps_wanted')}"
    return (
        word("Phase", "What the job does, in one word.", Query(told("phase", "phase"), "{{phase}}")),
        figure("Progress", "Training steps done, of those asked for.", SHARE, Query(progress)),
        figure("Throughput", "Trajectories trained per second.", PER_SECOND, Query(told("trajectories_per_second"))),
        word(
            "Bottleneck",
            "The stage that holds the pipeline back.",
            Query(f"{told('bottleneck', 'stage')} == 1", "{{stage}}"),
            nothing="none is known",
        ),
        word(
            "Decision",
            "What the last round decided, and by which rule.",
            Query(told("decision", "action", "kind"), "{{action}}: {{kind}}"),
        ),
        figure(
            "GPUs idle",
            f"{IDLE}, of all GPUs in use.",
            SHARE,
            Query(per(total(IDLE_GPUS), told("gpus_used"))),
            steps=((0.0, "green"), (0.3, "orange"), (0.6, "red")),
        ),
    )


def _share(state: str, stage: str) -> str:
    waits = rate(of_pods(STAGE_SECONDS, stage, state=state))
    return share(total(waits), total(rate(of_pods(STAGE_SECONDS, stage))))


EDGES = (
    ("environment", "tokens", "environment waits for the sampler"),
    ("environment", "tool", "environment waits for tools"),
    ("environment", "starved", "environment has no tasks"),
    ("environment", "paced", "environment waits for the trainer (admission closed)"),
    ("environment", "blocked", "environment waits for the reward server (buffer full)"),
    ("sampler", "starved", "sampler waits for episodes"),
    ("reward-server", "starved", "reward server waits for trajectories"),
    ("reward-server", "blocked", "reward server waits for the trainer (buffer full)"),
    ("trainer", "starved", "trainer waits for experience"),
    ("sampler", "sync", "sampler takes over weights"),
    ("trainer", "sync", "trainer publishes weights"),
)
"""(stage, state, what it means): the wait graph of the design, one line an edge."""


def _waits() -> tuple[Panel, ...]:
    edges = [Query(_share(state, stage), words) for stage, state, words in EDGES]
    by_state = rate(of_pods(STAGE_SECONDS, stage="~$stage"))
    split = f"{total(by_state, 'stage', 'state')} / ignoring (state) group_left () {total(by_state, 'stage')}"
    return (
        graph(
            "Who waits for whom",
            "Share of a stage's slot time that it waits, a line for each stage and what it waits for. The stage that "
            "others wait for, and that waits least itself, is the bottleneck.",
            SHARE,
            *edges,
            width=24,
            most=1,
        ),
        graph(
            "Time of the slots of $stage",
            "How a stage's slots spend their time. All states sum to one.",
            SHARE,
            Query(split, "{{state}}"),
            width=24,
            stacked=True,
            most=1,
        )
        .repeat("stage")
        .max_per_row(4),
        lanes(
            "Bottleneck over time",
            "The stage that held the pipeline back, as the operator saw it.",
            Query(told("bottleneck", "stage"), "{{stage}}"),
            true="bottleneck",
            color="red",
            nothing="none is known",
            width=12,
        ),
        graph(
            "What each stage could carry",
            "Trajectories per second that the present replicas of each stage could carry, as the operator estimates, "
            "and what is trained. The lowest line is the limit.",
            PER_SECOND,
            Query(told("stage_capacity_trajectories_per_second", "stage"), "{{stage}}"),
            Query(told("trajectories_per_second"), "trained"),
        ),
    )


def _flow() -> tuple[Panel, ...]:
    done = rate(of_pods("steelyard_stage_units_total", outcome="ok"))
    lost = rate(of_pods("steelyard_stage_units_total", outcome="!ok"))
    buffers = "max by (buffer)"
    return (
        graph(
            "Units that were finished",
            "Units that each stage finishes: trajectories, and samples of the trainer.",
            PER_SECOND,
            Query(total(done, "stage"), "{{stage}}"),
        ),
        graph(
            "Units that came to nothing",
            "Units by stage and outcome: failed, timeout, stale (too old to train on, tried again), duplicate.",
            PER_SECOND,
            Query(total(lost, "stage", "outcome"), "{{stage}} {{outcome}}"),
        ),
        graph(
            "Buffers",
            "Messages in each buffer, those held by a worker included, and its bound. A full one makes producers wait.",
            COUNT,
            Query(f"{buffers} ({of_pods('steelyard_buffer_depth')})", "{{buffer}}"),
            Query(f"{buffers} ({of_pods('steelyard_buffer_capacity')})", "{{buffer}} bound", bound=True),
        ),
        graph(
            "Wait in the buffers, 95th percentile",
            "Age of a message when it is taken from its buffer.",
            SECONDS,
            Query(quantile(0.95, of_pods("steelyard_buffer_wait_seconds_bucket"), "buffer"), "{{buffer}}"),
        ),
        graph(
            "Trajectories in flight",
            "Trajectories bound to the replicas of each stage, and their slots.",
            COUNT,
            Query(total(of_pods("steelyard_stage_inflight"), "stage"), "{{stage}}"),
            Query(total(of_pods("steelyard_stage_slots"), "stage"), "{{stage}} slots", bound=True),
        ),
        graph(
            "Work per unit, 95th percentile",
            "Time that a stage works on one unit, waits left out.",
            SECONDS,
            Query(quantile(0.95, of_pods("steelyard_stage_service_seconds_bucket"), "stage"), "{{stage}}"),
        ),
    )


def _learning() -> tuple[Panel, ...]:
    rewards, scored = (total(delta(of_pods(f"steelyard_reward_{part}"))) for part in ("sum", "count"))
    steps = of_pods("steelyard_train_step_seconds_bucket")
    intervals = of_pods("steelyard_train_step_interval_seconds_bucket")
    stale, lengths = of_pods("steelyard_staleness_bucket"), of_pods("steelyard_trajectory_tokens_bucket")
    trainer, samplers = (of_pods("steelyard_policy_version", part=part) for part in ("trainer", "sampler"))
    return (
        graph(
            "Reward",
            "Mean reward of the trajectories that were scored.",
            COUNT,
            Query(f"{rewards} / ({scored} > 0)", "mean"),
            least=None,
        ),
        graph(
            "Staleness",
            "Policy versions that trajectories lag behind when they are trained, and the most that the job allows.",
            COUNT,
            *(Query(quantile(rank, stale), name) for rank, name in ((0.5, "median"), (0.95, "95th percentile"))),
            Query(told("staleness_limit"), "limit", bound=True),
        ),
        graph(
            "Training steps",
            "Time of a step, and time between the ends of two: the difference is time without a step.",
            SECONDS,
            *(
                Query(quantile(rank, buckets), f"{words}, {name}")
                for rank, name in ((0.5, "median"), (0.95, "95th percentile"))
                for buckets, words in ((steps, "step"), (intervals, "interval"))
            ),
        ),
        graph(
            "Policy versions",
            "Step of the weights that the trainer has, and of the sampler that is furthest behind.",
            COUNT,
            Query(f"max({trainer})", "trainer"),
            Query(f"min({samplers})", "slowest sampler"),
        ),
        graph(
            "Tokens of a trajectory, 95th percentile",
            "Tokens of a trajectory by kind: prompt, generated, tool.",
            COUNT,
            Query(quantile(0.95, lengths, "kind"), "{{kind}}"),
            width=24,
        ),
    )


def _decisions() -> tuple[Panel, ...]:
    return (
        deciding_rule(ONE_JOB),
        graph(
            "Revision in force",
            "Number of the revision in force; each step is a move, marked by stage and verdict.",
            COUNT,
            Query(told("revision"), "revision"),
            width=8,
        ),
        gain_of_the_last_move(ONE_JOB),
        metrics_age(ONE_JOB, width=8),
    )
