"""The one place that knows the names, labels and buckets of the workers' metrics (the measurement contract).

Each class registers the families of one concern, so that a worker exports only what it measures: absent is not zero.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from steelyard_workers.clock import Clock

SECONDS = (*(digit * 10.0**power for power in range(-3, 3) for digit in (1, 2, 5)), 1000.0, 1800.0)
TOKENS = tuple(float(2**power) for power in range(18))
VERSIONS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
REWARDS = (*(tenth / 10 for tenth in range(11)), 2.0, 5.0, 10.0)
"""No bucket below zero: the client would leave out the sum, from which the mean reward is read."""
OUTCOMES = ("ok", "failed", "timeout", "stale", "duplicate")


class ClockCollector(Collector):
    """The seconds, slots and work in flight of one stage, asked at scrape time; a sampler exports only these, its
    units being vLLM's own token counters."""

    def __init__(self, stage: str, clock: Clock, inflight: Callable[[], float]) -> None:
        self._stage, self._clock, self._inflight = stage, clock, inflight

    def collect(self) -> Iterable[Metric]:
        seconds = CounterMetricFamily(
            "steelyard_stage_seconds",
            "Seconds of slots by state; all states sum to the slots' life",
            labels=["stage", "state"],
        )
        for state, value in self._clock.seconds().items():
            seconds.add_metric([self._stage, state.value], value)
        slots = GaugeMetricFamily("steelyard_stage_slots", "Concurrent slots of this replica", labels=["stage"])
        slots.add_metric([self._stage], self._clock.slots)
        inflight = GaugeMetricFamily(
            "steelyard_stage_inflight", "Trajectories bound to this replica now", labels=["stage"]
        )
        inflight.add_metric([self._stage], self._inflight())
        return [seconds, slots, inflight]


class StageMetrics:
    """What every stage exports: its clock, slots, work in flight, units and service time.

    `inflight` is asked at scrape time: the number of trajectories bound to this replica now.
    """

    def __init__(self, stage: str, clock: Clock, inflight: Callable[[], float], registry: CollectorRegistry) -> None:
        self._stage = stage
        registry.register(ClockCollector(stage, clock, inflight))
        self._units = Counter(
            "steelyard_stage_units",
            "Units finished: ok, failed, timeout, stale, duplicate",
            ["stage", "outcome"],
            registry=registry,
        )
        for outcome in OUTCOMES:
            self._units.labels(stage, outcome)
        self._service = Histogram(
            "steelyard_stage_service_seconds",
            "Work per unit without waiting",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        ).labels(stage)

    def unit(self, outcome: str, service_seconds: float | None = None) -> None:
        """One unit finished with `outcome` (one of OUTCOMES) after so many seconds of own work, if it was worked on."""
        self._units.labels(self._stage, outcome).inc()
        if service_seconds is not None:
            self._service.observe(service_seconds)


class BufferMetrics:
    """How old messages of one buffer are when this worker takes them (buffer: tasks, trajectories, experience)."""

    def __init__(self, buffer: str, registry: CollectorRegistry) -> None:
        self._wait = Histogram(
            "steelyard_buffer_wait_seconds",
            "Age of a message when it is taken from its buffer",
            ["buffer"],
            buckets=SECONDS,
            registry=registry,
        ).labels(buffer)

    def taken(self, age_seconds: float) -> None:
        """A message of that age was taken; clocks of two machines may differ, so ages below zero count as zero."""
        self._wait.observe(max(0.0, age_seconds))


class EpisodeMetrics:
    """Tool latency and trajectory lengths, exported by the environment."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tools = Histogram(
            "steelyard_tool_seconds",
            "Latency of tools, by how the call ended: ok, failed, timeout",
            ["tool", "outcome"],
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Histogram(
            "steelyard_trajectory_tokens",
            "Tokens per trajectory: prompt, generated, tool",
            ["kind"],
            buckets=TOKENS,
            registry=registry,
        )

    def tool(self, tool: str, outcome: str, seconds: float) -> None:
        """A tool call ended: ok, failed or timeout."""
        self._tools.labels(tool, outcome).observe(seconds)

    def tokens(self, prompt: int, generated: int, tool: int) -> None:
        """The lengths of one finished trajectory."""
        for kind, count in (("prompt", prompt), ("generated", generated), ("tool", tool)):
            self._tokens.labels(kind).observe(count)


class RewardMetrics:
    """The reward of each scored trajectory."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reward = Histogram("steelyard_reward", "Reward of a trajectory", buckets=REWARDS, registry=registry)


class PolicyMetrics:
    """The policy version this process works with. A version is epoch.step, so it takes two gauges:
    `steelyard_policy_version` is the step and `steelyard_policy_epoch` the epoch; only the pair is ordered,
    because after a resume the step falls while the epoch rises."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._step = Gauge(
            "steelyard_policy_version",
            "Step of the weights this worker has: the second half of epoch.step",
            registry=registry,
        )
        self._epoch = Gauge(
            "steelyard_policy_epoch",
            "Their epoch; it rises with every trainer that takes over, and a higher one is newer whatever the step",
            registry=registry,
        )

    def set(self, epoch: int, step: int) -> None:
        """The version in use from now on."""
        self._step.set(step)
        self._epoch.set(epoch)


class TrainMetrics:
    """Step times and staleness, exported by the trainer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.step_seconds = Histogram(
            "steelyard_train_step_seconds", "Time of a training step", buckets=SECONDS, registry=registry
        )
        self.step_interval_seconds = Histogram(
            "steelyard_train_step_interval_seconds",
            "Time between the ends of two training steps",
            buckets=SECONDS,
            registry=registry,
        )
        self.staleness = Histogram(
            "steelyard_staleness",
            "Versions that a trajectory lags behind when it is trained",
            buckets=VERSIONS,
            registry=registry,
        )
