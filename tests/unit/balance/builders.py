"""Raw samples with defaults: a sheet of counters and gauges that rise as told, scraped once a second."""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.balance import signals
from steelyard.balance.types import PodView, Rates, Seen, Series, StageCounts
from tests.unit.balance.loop import demo_job

NOW = 1_800_000_000.0
WINDOW = 120

START = Allocation.of(
    {
        Stage.SAMPLER: {"whole": 2},
        Stage.ENVIRONMENT: {"default": 1},
        Stage.REWARD_SERVER: {"whole": 1},
        Stage.TRAINER: {"whole": 1},
    }
)


@dataclass
class Sheet:
    """Samples of several pods over the last `WINDOW` seconds."""

    now: float = NOW
    every: float = 1.0
    samples: dict[str, dict[str, list[Series]]] = field(default_factory=dict)

    @property
    def instants(self) -> list[float]:
        return [self.now - WINDOW + step * self.every for step in range(int(WINDOW / self.every) + 1)]

    def add(self, metric: str, pod: str, values: list[float], **labels: str) -> Sheet:
        series = Series(tuple(sorted(labels.items())), tuple(zip(self.instants, values, strict=True)))
        self.samples.setdefault(metric, {}).setdefault(pod, []).append(series)
        return self

    def counter(self, metric: str, pod: str, rate: float, **labels: str) -> Sheet:
        """A counter that rises steadily by `rate` a second."""
        instants = self.instants
        return self.add(metric, pod, [rate * (at - instants[0]) for at in instants], **labels)

    def steps(self, metric: str, pod: str, amount: float, period: float, **labels: str) -> Sheet:
        """A counter that jumps by `amount` every `period` seconds."""
        instants = self.instants
        return self.add(metric, pod, [amount * ((at - instants[0]) // period) for at in instants], **labels)

    def level(self, metric: str, pod: str, value: float, **labels: str) -> Sheet:
        return self.add(metric, pod, [value] * len(self.instants), **labels)

    def without(self, metric: str, pod: str) -> Sheet:
        self.samples.get(metric, {}).pop(pod, None)
        return self

    def rates(self) -> Rates:
        return Rates(
            WINDOW,
            {metric: {pod: tuple(found) for pod, found in pods.items()} for metric, pods in self.samples.items()},
        )


def a_pod(name: str, stage: Stage, profile: str = "whole", *, ready: bool = True, terminating: bool = False) -> PodView:
    return PodView(name, f"uid-{name}", stage, profile, ready, terminating, created=NOW - 3600)


def pods_of(allocation: Allocation) -> list[PodView]:
    return [
        a_pod(f"{stage}-{profile}-{index}", stage, profile)
        for stage, profile, n in allocation.entries()
        for index in range(n)
    ]


def a_view(
    job: AgenticRLJob | None = None,
    revisions: tuple[AllocationRevision, ...] = (),
    allocation: Allocation = START,
    pods: list[PodView] | None = None,
    held: dict[Stage, str] | None = None,
) -> Seen:
    """A cluster in which everything `allocation` asks for is there and ready."""
    pods = pods_of(allocation) if pods is None else pods
    stages: dict[Stage, dict[str, StageCounts]] = {}
    for stage, profile, n in allocation.entries():
        mine = tuple(pod for pod in pods if (pod.stage, pod.profile) == (stage, profile))
        ready = sum(pod.ready and not pod.terminating for pod in mine)
        stages.setdefault(stage, {})[profile] = StageCounts(n, ready, len(mine) - ready, 0, mine)
    return Seen(job or demo_job(), revisions, stages, held or {})


def steady(
    *,
    trajectories: float = 2.0,
    tool_seconds: float = 3.0,
    token_seconds: float = 0.5,
    slots: int = 8,
    tokens: float = 40.0,
    judge_seconds: float = 0.3,
    train_seconds: float = 4.0,
    batch: int = 32,
    environments: int = 1,
    samplers: int = 2,
    judges: int = 1,
) -> Sheet:
    """A pipeline in which `trajectories` a second flow, with every state counter to match."""
    sheet = Sheet()
    for index in range(environments):
        pod, each = f"environment-default-{index}", trajectories / environments
        sheet.counter(signals.STAGE_SECONDS, pod, each * tool_seconds, state="tool")
        sheet.counter(signals.STAGE_SECONDS, pod, each * token_seconds, state="tokens")
        sheet.counter(signals.STAGE_SECONDS, pod, slots - each * (tool_seconds + token_seconds), state="starved")
        sheet.counter(signals.STAGE_UNITS, pod, each, outcome="ok")
        sheet.level(signals.STAGE_SLOTS, pod, slots)
        sheet.level(signals.STAGE_INFLIGHT, pod, each * (tool_seconds + token_seconds))
    for index in range(samplers):
        pod, each = f"sampler-whole-{index}", trajectories * tokens / samplers
        sheet.counter(signals.STAGE_SECONDS, pod, 0.8, state="busy")
        sheet.counter(signals.STAGE_SECONDS, pod, 0.2, state="starved")
        sheet.counter(signals.TOKENS_GENERATED, pod, each)
        sheet.counter(signals.TOKEN_LATENCY_SUM, pod, trajectories * token_seconds / samplers)
        sheet.counter(signals.TOKEN_LATENCY_COUNT, pod, each)
        sheet.level(signals.REQUESTS_RUNNING, pod, trajectories * token_seconds / samplers)
        sheet.level(signals.REQUESTS_WAITING, pod, 0)
    for index in range(judges):
        pod, each = f"reward-server-whole-{index}", trajectories / judges
        sheet.counter(signals.STAGE_SECONDS, pod, each * judge_seconds, state="busy")
        sheet.counter(signals.STAGE_SECONDS, pod, 1 - each * judge_seconds, state="starved")
        sheet.counter(signals.STAGE_UNITS, pod, each, outcome="ok")
        sheet.level(signals.STAGE_SLOTS, pod, 1)
    period, trainer = batch / trajectories, "trainer-whole-0"
    sheet.counter(signals.STAGE_SECONDS, trainer, train_seconds / period, state="busy")
    sheet.counter(signals.STAGE_SECONDS, trainer, 1 - train_seconds / period, state="starved")
    sheet.steps(signals.STAGE_UNITS, trainer, batch, period, outcome="ok")
    sheet.steps(signals.STEP_COUNT, trainer, 1, period)
    return sheet
