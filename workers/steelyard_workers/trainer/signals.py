"""What the trainer tells Prometheus, and in which words."""

from steelyard_workers.clock import State
from steelyard_workers.messages import Hop, PolicyVersion
from steelyard_workers.metrics import BufferMetrics, PolicyMetrics, TrainMetrics
from steelyard_workers.trainer.figures import StepFigures
from steelyard_workers.worker import Worker


class Signals:
    """The trainer's metrics. It has one slot: its one rank."""

    def __init__(self, worker: Worker) -> None:
        self.slot = worker.clock.open(State.SYNC)
        self._stage = worker.metrics
        self._buffer = BufferMetrics(Hop.EXPERIENCE, worker.registry)
        self._policy = PolicyMetrics(worker.registry)
        self._train = TrainMetrics(worker.registry)

    def taken(self, waited_seconds: float) -> None:
        """A scored trajectory arrived."""
        self._buffer.taken(waited_seconds)

    def unit(self, outcome: str) -> None:
        """A trajectory left without being trained."""
        self._stage.unit(outcome)

    def published(self, version: PolicyVersion) -> None:
        """Samplers can have this version."""
        self._policy.set(version.epoch, version.step)

    def stepped(self, figures: StepFigures) -> None:
        """One more step."""
        for behind in figures.lags:
            self._stage.unit("ok", figures.seconds / len(figures.lags))
            self._train.staleness.observe(behind)
        self._train.step_seconds.observe(figures.seconds)
        if figures.interval_seconds is not None:
            self._train.step_interval_seconds.observe(figures.interval_seconds)
