"""Every alert fires when it should and not before, run by promtool on made-up series."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import build
from e2e.cluster.progress import Progress
from monitoring.alerts import DECISIONS, JOBS, OPERATOR, WAITS

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "charts" / "steelyard" / "files" / "alerts").glob("*.yaml"))
ALERTS = {alert.name: alert for alert in (*JOBS, *WAITS, *DECISIONS, *OPERATOR)}
TARGET = 'namespace="steelyard-system",pod="operator-1",instance="10.0.0.1:8080",job="operator"'
OF_JOB = {"rl_namespace": "rl", "rl_job": "calculator"}
ALWAYS, NEVER = "1x3000", "0x3000"
GROWS = "0+1x3000"
HELD = "-80000x3000"
"""Since 80000 s before the test's time begins."""


def told(name: str, **labels: str) -> str:
    """A series of the job, as scraped from the operator."""
    own = ",".join(f'{key}="{value}"' for key, value in {**OF_JOB, **labels}.items())
    return f"steelyard_job_{name}{{{own},{TARGET}}}"


def condition(kind: str) -> str:
    return told("condition", condition=kind)


def own(name: str, **labels: str) -> str:
    """A series of the operator itself."""
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return f"steelyard_operator_{name}{{{TARGET}{more}}}"


def worker(name: str, pod: str, **labels: str) -> str:
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return f'{name}{{namespace="rl",pod="calculator-{pod}",job="rl/calculator"{more}}}'


def units(stage: str, pod: str, ok: int, bad: int, outcome: str) -> Mapping[str, str]:
    """Units of one pod, so many a minute."""
    return {
        worker("steelyard_stage_units_total", pod, stage=stage, outcome="ok"): f"0+{ok}x3000",
        worker("steelyard_stage_units_total", pod, stage=stage, outcome=outcome): f"0+{bad}x3000",
    }


READY = {condition("Ready"): ALWAYS}


@dataclass(frozen=True)
class Fires:
    """From this minute on, and not in the one before, with these labels."""

    series: Mapping[str, str]
    """Series -> values a minute apart, in promtool's notation."""
    minute: int
    labels: Mapping[str, str]


def of_job(series: Mapping[str, str], minute: int, **labels: str) -> Fires:
    return Fires(series, minute, {**OF_JOB, **labels})


CLAIM = {"namespace": "rl", "persistentvolumeclaim": "calculator-weights"}


def claim(used: int, namespace: str = "rl") -> Mapping[str, str]:
    labels = f'{{namespace="{namespace}",persistentvolumeclaim="calculator-weights",node="n"}}'
    return {
        f"kubelet_volume_stats_used_bytes{labels}": f"{used}x3000",
        f"kubelet_volume_stats_capacity_bytes{labels}": "100x3000",
        told("info", mode="Dynamic"): ALWAYS,
    }


def idle(sampler: float) -> Mapping[str, str]:
    """Four GPUs of samplers that work this share of their time, one of a trainer that always does."""
    return {
        told("stage_gpus", stage="sampler"): "4x3000",
        told("stage_utilization_ratio", stage="sampler"): f"{sampler}x3000",
        told("stage_gpus", stage="trainer"): ALWAYS,
        told("stage_utilization_ratio", stage="trainer"): ALWAYS,
        told("gpus_used"): "5x3000",
    }


def at_maximum(stage: str = "reward-server", backlog: str = GROWS) -> Mapping[str, str]:
    return {
        told("bottleneck", stage=stage): ALWAYS,
        told("replicas", stage=stage, profile="whole", state="desired"): "3x3000",
        told("replicas", stage=stage, profile="slice", state="desired"): ALWAYS,
        told("stage_replicas_max", stage=stage): "4x3000",
        told("stage_backlog", stage=stage): backlog,
    }


def moved(origin: str = "Operator", *directions: str) -> Mapping[str, str]:
    """Moved at minutes 0, 10 and 20."""
    return {
        told("last_move_timestamp_seconds", stage="sampler", direction=direction, origin=origin): "0x9 600x9 1200x3000"
        for direction in directions or ("up", "down")
    }


def requests(outcome: str) -> Mapping[str, str]:
    return {
        own("api_requests_total", verb="PATCH", outcome="200"): "0+80x3000",
        own("api_requests_total", verb="PATCH", outcome=outcome): "0+20x3000",
    }


TRAINER, JUDGE, ENVIRONMENT = "trainer-whole-0-x7k2p", "reward-server-whole-5d8c9-x7k2p", "environment-5d8c9-x7k2p"
CALLS = "steelyard_tool_seconds_count"
CASES: dict[str, Fires] = {
    "SteelyardJobStalled": of_job({condition("Stalled"): ALWAYS}, 5),
    "SteelyardJobNotTraining": of_job({told("training_step"): "3x3000", **READY}, 30),
    "SteelyardJobDegraded": of_job({condition("Degraded"): ALWAYS, condition("Stalled"): NEVER}, 10),
    "SteelyardPodsUnschedulable": of_job({condition("Scheduled"): NEVER}, 15),
    "SteelyardQuotaMissing": of_job({condition("QuotaReserved"): NEVER, condition("Suspended"): NEVER}, 60),
    "SteelyardReplicasOwnedElsewhere": of_job({condition("Conflict"): ALWAYS}, 10),
    "SteelyardClaimFilling": Fires(claim(95), 10, CLAIM),
    "SteelyardGpusIdle": of_job(idle(0.2), 60),
    "SteelyardTrainerStarved": of_job({told("stage_starved_ratio", stage="trainer"): "0.6x3000", **READY}, 30),
    "SteelyardSamplerStarved": of_job({told("stage_starved_ratio", stage="sampler"): "0.8x3000", **READY}, 30),
    "SteelyardStageAtMaximum": of_job(at_maximum(), 31, stage="reward-server"),
    "SteelyardSickReplica": of_job(
        {told("finding", symptom="SickReplica", stage="sampler"): ALWAYS}, 10, stage="sampler"
    ),
    "SteelyardStaleTrajectories": of_job(units("trainer", TRAINER, 70, 30, "stale"), 16),
    "SteelyardEpisodeErrors": of_job(units("environment", ENVIRONMENT, 70, 30, "timeout"), 16),
    "SteelyardRewardErrors": of_job(units("reward-server", JUDGE, 80, 20, "failed"), 16),
    "SteelyardToolErrors": of_job(
        {
            worker(CALLS, ENVIRONMENT, tool="browser", outcome="ok"): "0+60x3000",
            worker(CALLS, ENVIRONMENT, tool="browser", outcome="timeout"): "0+40x3000",
            worker(CALLS, ENVIRONMENT, tool="shell", outcome="ok"): "0+900x3000",
        },
        16,
        tool="browser",
    ),
    "SteelyardMetricsMissing": of_job({condition("MetricsAvailable"): NEVER, **READY}, 10),
    "SteelyardNothingFits": of_job({told("decision", action="Hold", kind="Infeasible"): ALWAYS}, 15),
    "SteelyardLosingStreak": of_job({told("decision", action="Hold", kind="LosingStreak"): ALWAYS}, 1),
    "SteelyardFixFirst": of_job({told("recommendation", remedy="FixFirst"): ALWAYS}, 30),
    "SteelyardStageFlapping": of_job(moved(), 21, stage="sampler"),
    "SteelyardHoldForgotten": of_job({told("hold_since_timestamp_seconds"): HELD}, 167),
    "SteelyardOperatorDown": Fires({own("lease_held"): NEVER}, 5, {}),
    "SteelyardJobNotReconciled": of_job(
        {told("last_tick_timestamp_seconds"): NEVER, told("interval_seconds"): "15x3000"}, 11
    ),
    "SteelyardOperatorBug": Fires({own("ticks_total", result="bug"): GROWS}, 6, {}),
    "SteelyardApiServerErrors": Fires(requests("503"), 11, {}),
    "SteelyardPrometheusUnreadable": Fires({own("metrics_reads_total", outcome="Unreachable"): GROWS}, 11, {}),
    "SteelyardPoolWait": Fires({own("pool_longest_wait_seconds", pool="shared"): "3601x3000"}, 10, {"pool": "shared"}),
}

LATER = (0, 5, 120)
"""Minutes after the alert would have fired."""
QUIET: dict[str, tuple[str, Mapping[str, str]]] = {
    "a job that waits for nobody": ("SteelyardJobStalled", {condition("Stalled"): NEVER}),
    "pods that have a node": ("SteelyardPodsUnschedulable", {condition("Scheduled"): ALWAYS}),
    "a job without an autoscaler": ("SteelyardReplicasOwnedElsewhere", {condition("Conflict"): NEVER}),
    "a claim that is 85 % full": ("SteelyardClaimFilling", claim(85)),
    "a trainer that waits 45 % of the time": (
        "SteelyardTrainerStarved",
        {told("stage_starved_ratio", stage="trainer"): "0.45x3000", **READY},
    ),
    "a trainer of a job that is not ready": (
        "SteelyardTrainerStarved",
        {told("stage_starved_ratio", stage="trainer"): ALWAYS, condition("Ready"): NEVER},
    ),
    "samplers that wait 65 % of the time": (
        "SteelyardSamplerStarved",
        {told("stage_starved_ratio", stage="sampler"): "0.65x3000", **READY},
    ),
    "another symptom": ("SteelyardSickReplica", {told("finding", symptom="LongTail", stage="environment"): ALWAYS}),
    "one trajectory in six that is stale": ("SteelyardStaleTrajectories", units("trainer", TRAINER, 85, 15, "stale")),
    "trajectories that fail, which are not stale": (
        "SteelyardStaleTrajectories",
        units("trainer", TRAINER, 70, 30, "failed"),
    ),
    "one episode in six that fails": ("SteelyardEpisodeErrors", units("environment", ENVIRONMENT, 85, 15, "failed")),
    "one reward in twelve that fails": ("SteelyardRewardErrors", units("reward-server", JUDGE, 92, 8, "failed")),
    "one call in four that fails": (
        "SteelyardToolErrors",
        {
            worker(CALLS, ENVIRONMENT, tool="browser", outcome="ok"): "0+75x3000",
            worker(CALLS, ENVIRONMENT, tool="browser", outcome="timeout"): "0+25x3000",
        },
    ),
    "metrics that are missing because pods start": (
        "SteelyardMetricsMissing",
        {condition("MetricsAvailable"): NEVER, condition("Ready"): NEVER},
    ),
    "a job that is held for another reason": (
        "SteelyardNothingFits",
        {told("decision", action="Hold", kind="DeadBand"): ALWAYS},
    ),
    "one move that was taken back": ("SteelyardLosingStreak", {told("decision", action="Hold", kind="Barred"): ALWAYS}),
    "a job whose capacity is to be moved": (
        "SteelyardFixFirst",
        {told("recommendation", remedy="Reallocate"): ALWAYS},
    ),
    "a hold of 21 hours": ("SteelyardHoldForgotten", {told("hold_since_timestamp_seconds"): "-60000x3000"}),
    "one request in twelve that fails": (
        "SteelyardApiServerErrors",
        {**requests("404"), own("api_requests_total", verb="PATCH", outcome="503"): "0+8x3000"},
    ),
    "two reads in five that fail": (
        "SteelyardPrometheusUnreadable",
        {
            own("metrics_reads_total", outcome="ok"): "0+60x3000",
            own("metrics_reads_total", outcome="Unreachable"): "0+40x3000",
        },
    ),
    "a wait of 58 minutes": ("SteelyardPoolWait", {own("pool_longest_wait_seconds", pool="shared"): "3480x3000"}),
    "a job that trains": ("SteelyardJobNotTraining", {told("training_step"): "0+1x3000", **READY}),
    "a job that is suspended and trains nothing": (
        "SteelyardJobNotTraining",
        {told("training_step"): "3x3000", condition("Ready"): NEVER},
    ),
    "a job that is stalled, which has its own alert": (
        "SteelyardJobDegraded",
        {condition("Degraded"): ALWAYS, condition("Stalled"): ALWAYS},
    ),
    "a suspended job without quota": (
        "SteelyardQuotaMissing",
        {condition("QuotaReserved"): NEVER, condition("Suspended"): ALWAYS},
    ),
    "a full claim of this name in a namespace without jobs": ("SteelyardClaimFilling", claim(95, namespace="db")),
    "samplers that work": ("SteelyardGpusIdle", idle(0.8)),
    "a stage at its maximum whose queue does not grow": ("SteelyardStageAtMaximum", at_maximum(backlog="7x3000")),
    "a trainer, which has one replica": ("SteelyardStageAtMaximum", at_maximum("trainer")),
    "a stage that only grows": ("SteelyardStageFlapping", moved("Operator", "up")),
    "a stage that a user moves to and fro": ("SteelyardStageFlapping", moved("User")),
    "environments of a job that is called calculator-reward-server": (
        "SteelyardRewardErrors",
        units("environment", f"reward-server-{ENVIRONMENT}", 0, 30, "failed"),
    ),
    "a hold that ends": (
        "SteelyardHoldForgotten",
        {told("hold_since_timestamp_seconds"): HELD, told("hold_expires_timestamp_seconds"): "999999x3000"},
    ),
    "an operator that holds the Lease": ("SteelyardOperatorDown", {own("lease_held"): ALWAYS}),
    "a job that is looked at each hour because its spec says so": (
        "SteelyardJobNotReconciled",
        {told("last_tick_timestamp_seconds"): "0x59 3600x59 7200x2880", told("interval_seconds"): "90000x3000"},
    ),
    "rounds that end well": ("SteelyardOperatorBug", {own("ticks_total", result="done"): GROWS}),
    "conflicts, which are everyday": ("SteelyardApiServerErrors", requests("409")),
    "reads that are answered": ("SteelyardPrometheusUnreadable", {own("metrics_reads_total", outcome="ok"): GROWS}),
}


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The one that is built with Prometheus."""
    return build.ensure(build.PROMETHEUS, Progress()) / "promtool"


def run(promtool: Path, *arguments: str | Path) -> None:
    ended = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def tried(promtool: Path, folder: Path, series: Mapping[str, str], **expected: Any) -> None:
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": of} for name, of in series.items()],
        **expected,
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(path) for path in RULES], "tests": [test]}))
    run(promtool, "test", "rules", file)


def firing(name: str, minute: int, labels: Mapping[str, str] | None) -> dict[str, Any]:
    """What `ALERTS` says of one alert at one minute; no labels: that it does not fire."""
    mine = {"alertname": name, "alertstate": "firing", "severity": ALERTS[name].severity}
    words = ",".join(f'{key}="{value}"' for key, value in {**mine, **(labels or {})}.items())
    samples = [] if labels is None else [{"labels": f"ALERTS{{{words}}}", "value": 1}]
    expression = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}


def test_prometheus_takes_the_rules(promtool: Path) -> None:
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *RULES)


def test_prometheus_takes_the_scrape_configuration_that_the_page_shows(promtool: Path, tmp_path: Path) -> None:
    """It keeps the pods of jobs and the operator's, as `manifests/base` labels it, and no other."""
    (shown,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", (ROOT / "docs" / "monitoring.md").read_text(), re.DOTALL)
    file = tmp_path / "prometheus.yml"
    file.write_text(shown)
    run(promtool, "check", "config", file)

    keep = yaml.safe_load(shown)["scrape_configs"][0]["relabel_configs"][0]
    deployment = next(yaml.safe_load_all((ROOT / "manifests" / "base" / "deployment.yaml").read_text()))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    operator = {"steelyard.dev/job": "", **labels}
    job = {"steelyard.dev/job": "calculator", "app.kubernetes.io/name": "steelyard-worker"}
    stranger = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "operator"}

    def kept(of: Mapping[str, str]) -> bool:
        known = {f"__meta_kubernetes_pod_label_{re.sub(r'[^a-z]', '_', name)}": value for name, value in of.items()}
        return bool(re.fullmatch(keep["regex"], ";".join(known.get(name, "") for name in keep["source_labels"])))

    assert (kept(operator), kept(job), kept(stranger)) == (True, True, False)


@pytest.mark.parametrize("name", ALERTS)
def test_fires_in_time(promtool: Path, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    before = firing(name, case.minute - 1, None)
    tried(promtool, tmp_path, case.series, promql_expr_test=[before, firing(name, case.minute, case.labels)])


def test_of_every_alert_it_is_known_when_it_stays_quiet() -> None:
    assert {name for name, _ in QUIET.values()} == set(ALERTS)


@pytest.mark.parametrize("what", QUIET)
def test_stays_quiet_about(promtool: Path, tmp_path: Path, what: str) -> None:
    name, series = QUIET[what]
    minutes = [CASES[name].minute + later for later in LATER]
    tried(promtool, tmp_path, series, promql_expr_test=[firing(name, minute, None) for minute in minutes])


def test_the_words_have_labels_and_values_filled_in(promtool: Path, tmp_path: Path) -> None:
    annotations = ALERTS["SteelyardGpusIdle"].rule()["annotations"]
    words = {**annotations, "description": "64% of the GPUs of rl/calculator have waited for an hour."}
    expected = {"exp_labels": {"severity": "warning", **OF_JOB}, "exp_annotations": words}
    test = {"eval_time": "60m", "alertname": "SteelyardGpusIdle", "exp_alerts": [expected]}
    tried(promtool, tmp_path, idle(0.2), alert_rule_test=[test])
