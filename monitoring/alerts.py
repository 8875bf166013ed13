"""Every alert, by whom it is about. Each speaks of a job, a stage or a pool, never of the pod that told of it."""

from __future__ import annotations

from monitoring.rules import Alert

OF_JOB = "cluster, rl_namespace, rl_job"
NAME = "{{ $labels.rl_namespace }}/{{ $labels.rl_job }}"
SHARE = "{{ $value | humanizePercentage }}"
TIME = "{{ $value | humanizeDuration }}"
READY = f'and on ({OF_JOB}) max by ({OF_JOB}) (steelyard_job_condition{{condition="Ready"}}) == 1'


def _condition(kind: str, value: int) -> str:
    return f'max by ({OF_JOB}) (steelyard_job_condition{{condition="{kind}"}}) == {value}'


def _decides(kind: str) -> str:
    return f'max by ({OF_JOB}) (steelyard_job_decision{{kind="{kind}"}}) == 1'


def _counted(counter: str, part: str, matcher: str = "", *by: str) -> str:
    """Per second, of what the pods of one part of each job count. Pods are named `<job>-<part>-...`."""
    matchers = ", ".join(filter(None, (f'pod=~".+-{part}-.+"', matcher)))
    named = f'label_replace(rate({counter}{{{matchers}}}[10m]), "rl_job", "$1", "pod", "(.+)-{part}-.+")'
    labels = ", ".join((OF_JOB, *by))
    return f'sum by ({labels}) (label_replace({named}, "rl_namespace", "$1", "namespace", "(.+)"))'


def _failing(part: str, outcomes: str, share: float) -> str:
    """Units of one stage that came to nothing, of all of them."""
    stage = f'stage="{part}"'  # pods of other stages have the name of this one where the job's name has it
    bad = _counted("steelyard_stage_units_total", part, f'{stage}, outcome=~"{outcomes}"')
    return f"{bad} / {_counted('steelyard_stage_units_total', part, stage)} > {share}"


CALLS = "steelyard_tool_seconds_count"

JOBS = (
    Alert(
        "SteelyardJobStalled",
        "critical",
        "5m",
        _condition("Stalled", 1),
        "A job waits for a person.",
        f"{NAME} has the condition Stalled: something that only its owner can correct. It will not recover by itself.",
    ),
    Alert(
        "SteelyardJobNotTraining",
        "critical",
        "30m",
        f"max by ({OF_JOB}) (changes(steelyard_job_training_step[30m])) == 0 {READY}",
        "A job that is ready trains nothing.",
        f"{NAME} is ready, and its trainer has finished no step for more than half an hour.",
    ),
    Alert(
        "SteelyardJobDegraded",
        "warning",
        "10m",
        f"{_condition('Degraded', 1)} unless on ({OF_JOB}) {_condition('Stalled', 1)}",
        "A part of a job is broken while the rest goes on.",
        f"{NAME} has the condition Degraded: replicas are lost or keep failing.",
    ),
    Alert(
        "SteelyardPodsUnschedulable",
        "warning",
        "15m",
        _condition("Scheduled", 0),
        "Pods of a job find no node.",
        f"Pods of {NAME} have waited for a node for 15 minutes.",
    ),
    Alert(
        "SteelyardQuotaMissing",
        "info",
        "1h",
        f"{_condition('QuotaReserved', 0)} unless on ({OF_JOB}) {_condition('Suspended', 1)}",
        "A job waits for quota.",
        f"{NAME} has waited for GPUs of its pool, its quota or its queue for an hour.",
    ),
    Alert(
        "SteelyardReplicasOwnedElsewhere",
        "warning",
        "10m",
        _condition("Conflict", 1),
        "An autoscaler owns replicas of a job.",
        f"A HorizontalPodAutoscaler owns replicas of {NAME}; Steelyard leaves that stage alone.",
    ),
    Alert(
        "SteelyardClaimFilling",
        "warning",
        "10m",
        "max by (cluster, namespace, persistentvolumeclaim) ("
        'kubelet_volume_stats_used_bytes{persistentvolumeclaim=~".+-(bus|checkpoints|weights)"}'
        " / kubelet_volume_stats_capacity_bytes) > 0.9 and on (cluster, namespace) "
        'label_replace(steelyard_job_info, "namespace", "$1", "rl_namespace", "(.+)")',
        "A claim of a job is almost full.",
        f"Claim {{{{ $labels.persistentvolumeclaim }}}} in {{{{ $labels.namespace }}}} is {SHARE} full.",
    ),
)

WAITS = (
    Alert(
        "SteelyardGpusIdle",
        "warning",
        "1h",
        f"sum by ({OF_JOB}) (steelyard_job_stage_gpus * (1 - steelyard_job_stage_utilization_ratio))"
        f" / (sum by ({OF_JOB}) (steelyard_job_gpus_used) > 0) > 0.5",
        "Most GPUs of a job do nothing.",
        f"{SHARE} of the GPUs of {NAME} have waited for an hour.",
    ),
    Alert(
        "SteelyardTrainerStarved",
        "warning",
        "30m",
        f'max by ({OF_JOB}) (steelyard_job_stage_starved_ratio{{stage="trainer"}}) > 0.5 {READY}',
        "A trainer waits for experience most of the time.",
        f"The trainer of {NAME} has no input {SHARE} of the time.",
    ),
    Alert(
        "SteelyardSamplerStarved",
        "warning",
        "30m",
        f'max by ({OF_JOB}) (steelyard_job_stage_starved_ratio{{stage="sampler"}}) > 0.7 {READY}',
        "Samplers wait for episodes most of the time.",
        f"The samplers of {NAME} have no requests {SHARE} of the time.",
    ),
    Alert(
        "SteelyardStageAtMaximum",
        "info",
        "30m",
        f'max by ({OF_JOB}, stage) (steelyard_job_bottleneck{{stage!="trainer"}}) == 1'
        f' and sum by ({OF_JOB}, stage) (steelyard_job_replicas{{state="desired"}})'
        f" >= max by ({OF_JOB}, stage) (steelyard_job_stage_replicas_max)"
        f" and max by ({OF_JOB}, stage) (deriv(steelyard_job_stage_backlog[30m])) > 0",
        "The stage that holds a job back may have no more replicas.",
        f"Stage {{{{ $labels.stage }}}} holds {NAME} back, has all replicas its spec allows, and its queue grows.",
    ),
    Alert(
        "SteelyardSickReplica",
        "warning",
        "10m",
        f'max by ({OF_JOB}, stage) (steelyard_job_finding{{symptom="SickReplica"}}) == 1',
        "A replica holds work and finishes none.",
        f"A replica of {{{{ $labels.stage }}}} of {NAME} finishes nothing while others do.",
    ),
    Alert(
        "SteelyardStaleTrajectories",
        "warning",
        "15m",
        _failing("trainer", "stale", 0.2),
        "Many trajectories are too old to train on.",
        f"{SHARE} of what reaches the trainer of {NAME} is older than maxStaleness and is made again.",
    ),
    Alert(
        "SteelyardEpisodeErrors",
        "warning",
        "15m",
        _failing("environment", "failed|timeout", 0.2),
        "Many episodes fail.",
        f"{SHARE} of the episodes of {NAME} fail or run out of time.",
    ),
    Alert(
        "SteelyardRewardErrors",
        "warning",
        "15m",
        _failing("reward-server", "failed|timeout", 0.1),
        "Many rewards fail.",
        f"{SHARE} of the trajectories of {NAME} get no reward.",
    ),
    Alert(
        "SteelyardToolErrors",
        "warning",
        "15m",
        _counted(CALLS, "environment", 'outcome!="ok"', "tool")
        + f" / {_counted(CALLS, 'environment', '', 'tool')} > 0.3",
        "A tool fails often.",
        f"{SHARE} of the calls of tool {{{{ $labels.tool }}}} by {NAME} fail or run out of time.",
    ),
)

DECISIONS = (
    Alert(
        "SteelyardMetricsMissing",
        "warning",
        "10m",
        f"{_condition('MetricsAvailable', 0)} {READY}",
        "A job cannot be balanced because metrics are missing.",
        f"Ready pods of {NAME} have no fresh metrics; its allocation is held until they do.",
    ),
    Alert(
        "SteelyardNothingFits",
        "warning",
        "15m",
        _decides("Infeasible"),
        "No allocation fits a job's bounds.",
        f"No allocation of {NAME} fits its budget, its quota and the bounds of its stages at the same time.",
    ),
    Alert(
        "SteelyardLosingStreak",
        "warning",
        "1m",
        _decides("LosingStreak"),
        "The last moves of a job were all taken back.",
        f"The last moves of {NAME} did harm and were rolled back; the last good allocation is held for a while.",
    ),
    Alert(
        "SteelyardFixFirst",
        "warning",
        "30m",
        f'max by ({OF_JOB}) (steelyard_job_recommendation{{remedy="FixFirst"}}) == 1',
        "Something is wrong with a job that no allocation cures.",
        f"{NAME} shows a symptom that more replicas do not help; status.findings names it and what to check first.",
    ),
    Alert(
        "SteelyardStageFlapping",
        "warning",
        "1m",
        " and ".join(
            f"sum by ({OF_JOB}, stage) (changes(steelyard_job_last_move_timestamp_seconds"
            f'{{direction="{direction}", origin!="User"}}[2h])) >= 2'
            for direction in ("up", "down")
        ),
        "A stage gets and loses replicas again and again.",
        f"Stage {{{{ $labels.stage }}}} of {NAME} was moved up and down at least twice each within two hours.",
    ),
    Alert(
        "SteelyardHoldForgotten",
        "info",
        "1h",
        f"time() - max by ({OF_JOB}) (steelyard_job_hold_since_timestamp_seconds) > 86400"
        f" unless on ({OF_JOB}) max by ({OF_JOB}) (steelyard_job_hold_expires_timestamp_seconds)",
        "An allocation has been held by hand for more than a day, without an end.",
        f"{NAME} has been held by a user's revision for {TIME}; nothing is balanced until the hold ends.",
    ),
)

OPERATOR = (
    Alert(
        "SteelyardOperatorDown",
        "critical",
        "5m",
        "absent(steelyard_operator_lease_held == 1)",
        "No operator looks after the jobs.",
        "No operator that holds the Lease is scraped. Jobs go on as they are; nothing is repaired, moved or started.",
    ),
    Alert(
        "SteelyardJobNotReconciled",
        "warning",
        "5m",
        f"time() - max by ({OF_JOB}) (steelyard_job_last_tick_timestamp_seconds)"
        f" > 300 + 3 * max by ({OF_JOB}) (steelyard_job_interval_seconds)",
        "The operator does not look at a job.",
        f"The operator has not finished a round over {NAME} for {TIME}.",
    ),
    Alert(
        "SteelyardOperatorBug",
        "warning",
        "5m",
        'sum by (cluster) (increase(steelyard_operator_ticks_total{result="bug"}[15m])) > 0'
        ' or sum by (cluster) (increase(steelyard_operator_pool_ticks_total{result="bug"}[15m])) > 0',
        "The operator fails on a job or a pool.",
        "Rounds end with an error that is a bug of the operator. The rest goes on; this is tried again each minute.",
    ),
    Alert(
        "SteelyardApiServerErrors",
        "warning",
        "10m",
        'sum by (cluster) (rate(steelyard_operator_api_requests_total{outcome=~"429|5..|unreachable"}[10m]))'
        " / sum by (cluster) (rate(steelyard_operator_api_requests_total[10m])) > 0.1",
        "The API server refuses the operator or does not answer.",
        f"{SHARE} of the operator's requests are not answered, refused as too many, or fail.",
    ),
    Alert(
        "SteelyardPrometheusUnreadable",
        "warning",
        "10m",
        'sum by (cluster) (rate(steelyard_operator_metrics_reads_total{outcome!="ok"}[10m]))'
        " / sum by (cluster) (rate(steelyard_operator_metrics_reads_total[10m])) > 0.5",
        "The operator cannot read Prometheus.",
        f"{SHARE} of the operator's reads of metrics fail; every job keeps its allocation.",
    ),
    Alert(
        "SteelyardPoolWait",
        "info",
        "10m",
        "max by (cluster, pool) (steelyard_operator_pool_longest_wait_seconds) > 3600",
        "A job has waited for its pool for more than an hour.",
        f"A job has waited for its smallest allocation of pool {{{{ $labels.pool }}}} for {TIME}.",
    ),
)
