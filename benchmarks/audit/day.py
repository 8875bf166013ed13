"""A day of a made-up job as OpenMetrics text: every metric that an audit reads, at 15 s, with new pods at every move.

Counters are closed functions of time (a rate that swings), so that any slice of the day can be written by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, sin
from typing import Protocol

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, RevisionPhase, Stage
from steelyard.balance import signals
from steelyard.balance.words import moment
from steelyard.children.common import checkpoints_name, weights_name
from tests.builders import a_job, a_revision

START = 1_798_000_000.0
SCRAPE = 15.0
ERA = 4 * 3600.0
"""Between two moves."""
NAME = "calculator"

SECONDS = (*(digit * 10.0**power for power in range(-3, 3) for digit in (1, 2, 5)), 1000.0, 1800.0)
TOKENS = tuple(float(2**power) for power in range(18))
STATES: Mapping[Stage, Mapping[str, float]] = {
    Stage.SAMPLER: {"busy": 0.7, "starved": 0.26, "sync": 0.04},
    Stage.ENVIRONMENT: {"busy": 0.5, "tool": 9.0, "tokens": 5.5, "starved": 0.6, "paced": 0.4},
    Stage.REWARD_SERVER: {"busy": 2.9, "starved": 1.1},
    Stage.TRAINER: {"busy": 0.55, "starved": 0.38, "sync": 0.07},
}
"""Slot seconds a second of one replica."""


class Text(Protocol):
    """What can be written to."""

    def write(self, text: str, /) -> int: ...


@dataclass(frozen=True)
class Pod:
    name: str
    stage: Stage
    since: float
    until: float


@dataclass(frozen=True)
class Series:
    """`value(t)`: a counter that grows by `rate` a second, or a gauge around `level`."""

    name: str
    labels: str
    since: float
    until: float
    rate: float = 0.0
    level: float = 0.0
    phase: float = 0.0

    def value(self, at: float) -> float:
        swing = sin(at / 2000 + self.phase)
        return self.rate * (at - self.since + 300 * (swing + 1)) if self.rate else self.level * (1 + 0.3 * swing)


def job() -> AgenticRLJob:
    return a_job({"stages.environment.replicas": {"min": 1, "max": 8}}, name=NAME)


def allocation(era: int) -> Allocation:
    return Allocation.of(
        {
            Stage.SAMPLER: {"whole": 4 - era % 2},
            Stage.ENVIRONMENT: {"default": 5 + era % 2},
            Stage.REWARD_SERVER: {"whole": 2},
            Stage.TRAINER: {"whole": 1},
        }
    )


def ledger(hours: float) -> tuple[AllocationRevision, ...]:
    """A move at the start of each era, kept."""
    found = []
    for era in range(int(hours * 3600 / ERA)):
        at = START + era * ERA
        status = {
            "appliedTime": moment(at),
            "settlingTime": moment(at + 60),
            "measuringTime": moment(at + 240),
            "judgedTime": moment(at + 900),
            "verdict": "Kept",
            "evidence": "made up",
            "measured": {"throughputBefore": "1.4", "throughputAfter": "1.5", "transitionCostSeconds": "40"},
        }
        before = allocation(era - 1) if era else None
        found.append(a_revision(era + 1, allocation(era), before=before, phase=RevisionPhase.JUDGED, status=status))
    return tuple(found)


def pods(hours: float) -> Iterator[Pod]:
    end = START + hours * 3600
    for era in range(int(hours * 3600 / ERA)):
        since = START + era * ERA
        for stage, profile, replicas in allocation(era).entries():
            if stage is not Stage.TRAINER:
                part = "" if stage is Stage.ENVIRONMENT else f"{profile}-"
                for index in range(replicas):
                    name = f"{NAME}-{stage}-{part}74658749{era:02}-{index:05}"
                    yield Pod(name, stage, since + 30, since + ERA)
    yield Pod(f"{NAME}-trainer-whole-0-abcde", Stage.TRAINER, START, end)


def series(hours: float) -> Iterator[Series]:
    """All of one metric together, as the format wants it."""
    end = START + hours * 3600
    found = [one for pod in pods(hours) for one in (*_of(pod), *_node(pod))]
    found += [*_bus(end), *_claims(end)]
    yield from sorted(found, key=lambda one: one.name)


def write(into: Text, all_series: list[Series], since: float, until: float) -> int:
    """The scrapes of one slice; how many samples that were."""
    written = 0
    for one in all_series:
        at = max(one.since, since) + 2 * one.phase  # targets are spread over the interval, a pod is scraped at once
        while at < min(one.until, until):
            into.write(f"{one.name}{{{one.labels}}} {one.value(at):.6g} {at:.0f}\n")
            written += 1
            at += SCRAPE
    into.write("# EOF\n")
    return written


def _of(pod: Pod) -> Iterator[Series]:
    where = f'namespace="default",pod="{pod.name}"'
    stage = f'{where},stage="{pod.stage}"'
    phase = sum(map(ord, pod.name)) % 7

    def counter(name: str, labels: str, rate: float) -> Series:
        return Series(name, labels, pod.since, pod.until, rate=rate, phase=phase)

    def gauge(name: str, labels: str, level: float) -> Series:
        return Series(name, labels, pod.since, pod.until, level=level, phase=phase)

    def histogram(name: str, labels: str, rate: float, mean: float, bounds: tuple[float, ...]) -> Iterator[Series]:
        shares = [(f"{bound:g}", 1 - exp(-bound / mean)) for bound in bounds] + [("+Inf", 1.0)]
        yield from (counter(f"{name}_bucket", f'{labels},le="{le}"', rate * share + 1e-9) for le, share in shares)
        yield counter(f"{name}_count", labels, rate)
        yield counter(f"{name}_sum", labels, rate * mean)

    states = STATES[pod.stage]
    yield from (counter(signals.STAGE_SECONDS, f'{stage},state="{state}"', rate) for state, rate in states.items())
    yield gauge(signals.STAGE_SLOTS, stage, sum(states.values()))
    yield gauge(signals.STAGE_INFLIGHT, stage, sum(states.values()) / 2)
    if pod.stage is Stage.SAMPLER:
        yield counter(signals.TOKENS_GENERATED, where, 900.0)
        yield gauge(signals.REQUESTS_RUNNING, where, 20.0)
        yield gauge(signals.REQUESTS_WAITING, where, 1.5)
        yield gauge(signals.KV_USAGE, where, 0.5)
        yield counter(signals.TOKEN_LATENCY_COUNT, where, 900.0)
        yield counter(signals.TOKEN_LATENCY_SUM, where, 20.0)
        return
    yield counter(signals.STAGE_UNITS, f'{stage},outcome="ok"', 1.5 if pod.stage is Stage.TRAINER else 0.3)
    yield from histogram(signals.SERVICE_SECONDS, stage, 0.3, 2.0, SECONDS)
    if pod.stage is Stage.ENVIRONMENT:
        for tool, mean in (("search", 3.0), ("shell", 0.4)):
            for outcome, rate in (("ok", 0.9), ("timeout", 0.02)):
                labels = f'{where},tool="{tool}",outcome="{outcome}"'
                yield from histogram(signals.TOOL_SECONDS, labels, rate, mean, SECONDS)
        lengths = signals.TRAJECTORY_TOKENS.removesuffix("_bucket")
        for kind, mean in (("prompt", 300.0), ("generated", 900.0), ("tool", 2000.0)):
            yield from histogram(lengths, f'{where},kind="{kind}"', 0.3, mean, TOKENS)
        yield from histogram(signals.BUFFER_WAIT_SECONDS, f'{where},buffer="tasks"', 0.3, 1.0, SECONDS)
    if pod.stage is Stage.REWARD_SERVER:
        yield from histogram(signals.BUFFER_WAIT_SECONDS, f'{where},buffer="trajectories"', 0.7, 4.0, SECONDS)
        yield counter(signals.REWARD_COUNT, where, 0.7)
        yield counter(signals.REWARD_SUM, where, 0.4)
    if pod.stage is Stage.TRAINER:
        yield from histogram(signals.BUFFER_WAIT_SECONDS, f'{where},buffer="experience"', 1.5, 30.0, SECONDS)
        yield from histogram(signals.STEP_SECONDS, where, 1.5 / 128, 45.0, SECONDS)
        yield from histogram(signals.STEP_INTERVAL_SECONDS, where, 1.5 / 128, 85.0, SECONDS)
        yield from histogram(signals.STALENESS, where, 1.5, 1.0, (0.0, 1.0, 2.0, 3.0, 4.0, 8.0))
        yield gauge(signals.POLICY_VERSION, where, 100.0)


def _node(pod: Pod) -> Iterator[Series]:
    """What the node's exporters tell about it: some wait for storage, and a device that is nearly full."""
    inside = f'namespace="default",pod="{pod.name}",container="worker"'
    yield Series(signals.IO_WAITING, inside, pod.since, pod.until, rate=0.05)
    if pod.stage is Stage.SAMPLER:
        other = f'namespace="gpus",pod="dcgm",exported_namespace="default",exported_pod="{pod.name}",gpu="0"'
        yield Series(signals.DEVICE_USED, other, pod.since, pod.until, level=60000.0)
        yield Series(signals.DEVICE_FREE, other, pod.since, pod.until, level=20000.0)


def _claims(end: float) -> Iterator[Series]:
    for name, fill in ((weights_name(NAME), 0.2), (checkpoints_name(NAME), 0.6)):
        where = f'namespace="default",persistentvolumeclaim="{name}"'
        yield Series(signals.CLAIM_USED, where, START, end, level=fill * 1e9)
        yield Series(signals.CLAIM_CAPACITY, where, START, end, level=1e9)


def _bus(end: float) -> Iterator[Series]:
    where = f'namespace="default",pod="{NAME}-bus-0"'
    for buffer, depth in (("tasks", 90.0), ("trajectories", 12.0), ("experience", 140.0)):
        yield Series(signals.BUFFER_DEPTH, f'{where},buffer="{buffer}"', START, end, level=depth)
        yield Series(signals.BUFFER_CAPACITY, f'{where},buffer="{buffer}"', START, end, level=4096.0)
