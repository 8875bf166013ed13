"""Symptoms of single replicas and of the machines below them: sick replicas, full memory, slow or full disks."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.api import Stage
from steelyard.balance.diagnose.remedies import finding
from steelyard.balance.diagnose.scene import Scene, mean, together
from steelyard.balance.observe import PodWindow
from steelyard.balance.surroundings import Pressure
from steelyard.balance.types import Finding, Symptom
from steelyard.balance.words import number, percent

SICK_SECONDS = 30.0
"""A replica that holds work for so long and finishes nothing is sick."""
SIBLINGS_UNITS = 8.0
"""Where units are long, siblings must have finished so many each before one without any is suspect."""
KV_FULL = 0.9
DEVICE_FULL = 0.97
PATCHY = 0.7
"""Share of work below which memory that is full is not used well."""
MEMORY_WAITS = 0.1
IO_WAITS = 0.2
IO_STALLS = 0.1
CLAIM_FULL = 0.9


def sick_replica(scene: Scene) -> Finding | None:
    """Replicas that hold work and finish none of it."""
    samplers = [pod for pod in scene.pods(Stage.SAMPLER) if _generates_nothing(pod)]
    if samplers:
        running = together(pod.engine.running.mean for pod in samplers if pod.engine)
        evidence = f"{_names(samplers)} ran {number(running)} requests for {_span(samplers)} and generated no token"
        return finding(Symptom.SICK_REPLICA, Stage.SAMPLER, evidence)
    for stage in (Stage.ENVIRONMENT, Stage.REWARD_SERVER):
        stuck = _stuck(scene.pods(stage))
        if stuck:
            evidence = f"{_names(stuck)} finished nothing in {_span(stuck)} while the other replicas did"
            return finding(Symptom.SICK_REPLICA, stage, evidence)
    return None


def _generates_nothing(pod: PodWindow) -> bool:
    """A sampler with requests at every scrape and not one token. Taking over weights is no sickness."""
    engine = pod.engine
    if engine is None or not engine.running.samples or pod.span - pod.time_in("sync") < SICK_SECONDS:
        return False
    held = all(running > 0 for _, running in engine.running.samples)
    return held and engine.tokens.increase(pod.start, pod.end) <= 0


def _stuck(pods: Iterable[PodWindow]) -> list[PodWindow]:
    told = [pod for pod in pods if pod.span >= SICK_SECONDS and pod.inflight.samples]
    suspects = [pod for pod in told if pod.finished() <= 0 and all(held > 0 for _, held in pod.inflight.samples)]
    siblings = [pod for pod in told if pod not in suspects]
    if not suspects or not siblings or sum(pod.finished() for pod in siblings) / len(siblings) < SIBLINGS_UNITS:
        return []
    return suspects


def memory_full(scene: Scene) -> Finding | None:
    """The samplers' KV pool is full and requests queue for it, or devices are full and their stage works in patches."""
    usage, queued = mean(engine.kv_usage.mean for engine in scene.engines), scene.graph[Stage.SAMPLER].backlog
    if usage is not None and usage >= KV_FULL and queued is not None and queued >= 1:
        evidence = f"the samplers' KV pool is {percent(usage)} full and {number(queued)} requests wait for it"
        return finding(Symptom.MEMORY_FULL, Stage.SAMPLER, evidence)
    for stage in (Stage.TRAINER, Stage.REWARD_SERVER):
        working, full = scene.graph[stage].working, mean(one.device_memory for one in _pressures(scene, stage))
        if full is not None and full >= DEVICE_FULL and working is not None and working < PATCHY:
            evidence = f"{stage} has its devices' memory {percent(full)} full and works {percent(working)} of the time"
            return finding(Symptom.MEMORY_FULL, stage, evidence)
    for stage in Stage:
        waits = mean(one.memory_waiting for one in _pressures(scene, stage))
        if waits is not None and waits >= MEMORY_WAITS:
            evidence = f"pods of {stage} wait for memory of their node {percent(waits)} of the time"
            return finding(Symptom.MEMORY_FULL, stage, evidence)
    return None


def disk_waits(scene: Scene) -> Finding | None:
    """A pod waits for storage, or a claim of the job is nearly full."""
    pod, worst = max(scene.around.pods.items(), key=lambda item: _storage(item[1]), default=("", Pressure()))
    claim, fill = max(scene.around.claims.items(), key=lambda item: item[1], default=("", 0.0))
    full = f"claim {claim} is {percent(fill)} full" if fill >= CLAIM_FULL else ""
    if _storage(worst) < 1:
        return finding(Symptom.DISK_WAITS, None, full) if full else None
    evidence = f"{pod} waits for storage {percent(worst.io_waiting or 0.0)} of the time"
    if worst.io_stalled is not None:
        evidence += f", with no task able to go on {percent(worst.io_stalled)}"
    return finding(Symptom.DISK_WAITS, scene.stage_of(pod), f"{evidence}; {full}" if full else evidence)


def _storage(pressure: Pressure) -> float:
    """1 where the wait for storage begins to count."""
    return max((pressure.io_waiting or 0.0) / IO_WAITS, (pressure.io_stalled or 0.0) / IO_STALLS)


def _pressures(scene: Scene, stage: Stage) -> list[Pressure]:
    return [found for pod in scene.pods(stage) if (found := scene.around.pods.get(pod.pod.name)) is not None]


def _names(pods: list[PodWindow]) -> str:
    named = ", ".join(pod.pod.name for pod in pods[:3])
    return f"{named} and {len(pods) - 3} more" if len(pods) > 3 else named


def _span(pods: list[PodWindow]) -> str:
    return f"{min(pod.span for pod in pods):.0f} s"
