"""Prometheus: whether it is reached, and whether it has every series that decisions rest on, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.api import Stage
from steelyard.balance import signals
from steelyard.cli import codes
from steelyard.cli.asking import Asking
from steelyard.cli.checking.findings import Finding, Scene, failure, ok
from steelyard.cluster import kinds, records
from steelyard.cluster.view import STAGES

OF_ALL = (signals.STAGE_SECONDS, signals.STAGE_SLOTS, signals.STAGE_INFLIGHT)
NEEDED = {
    Stage.SAMPLER: (*OF_ALL, signals.TOKENS_GENERATED, signals.REQUESTS_RUNNING, signals.TOKEN_LATENCY_SUM),
    Stage.ENVIRONMENT: (*OF_ALL, signals.STAGE_UNITS),
    Stage.REWARD_SERVER: (*OF_ALL, signals.STAGE_UNITS),
    Stage.TRAINER: (signals.STAGE_SECONDS, signals.STAGE_UNITS, signals.STEP_COUNT),
}
"""Series that every ready pod of a stage must have."""


def prometheus(scene: Scene) -> Iterator[Finding]:
    pods = _ready_pods(scene)
    namespace = scene.session.namespace
    names = sorted({metric for needed in NEEDED.values() for metric in needed})
    queries = {name: f'count by (pod) ({name}{{namespace="{namespace}"}})' for name in names}
    with Asking(scene.session, scene.prometheus) as asking:
        answers = asking.ask({"up": "vector(1)", **queries})
        if "up" not in answers:
            yield failure(codes.NO_PROMETHEUS, "Prometheus", asking.why_not or "it does not answer")
            return
    yield ok("Prometheus", "answers")
    seen = {name: {line.labels.get("pod") for line in answers.get(name, ())} for name in names}
    for stage, mine in pods.items():
        missing = {metric: [pod for pod in mine if pod not in seen[metric]] for metric in NEEDED[stage]}
        for metric, lacking in missing.items():
            if lacking:
                said = f"{metric} is missing from {len(lacking)} of {len(mine)} ready pods: {', '.join(lacking[:3])}"
                yield failure(codes.NO_SERIES, f"stage {stage.field}", said)
        if mine and not any(missing.values()):
            yield ok(f"stage {stage.field}", f"every series of {len(mine)} ready pods is there")


def _ready_pods(scene: Scene) -> dict[Stage, list[str]]:
    found: dict[Stage, list[str]] = {stage: [] for stage in Stage}
    for obj in scene.objects(kinds.POD, scene.session.namespace):
        if "steelyard.dev/job" not in (obj["metadata"].get("labels") or {}):
            continue
        pod = records.pod(obj)
        if pod.ready and not pod.terminating and pod.stage in STAGES:
            found[STAGES[pod.stage]].append(pod.name)
    return found
