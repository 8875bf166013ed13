"""The operator's loop against the simulated pipeline: record, apply, report, as the controller does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.api import AgenticRLJob, AllocationRevision, RevisionPhase
from steelyard.balance import balance
from steelyard.balance.types import Decision, Plan, Rates, Seen
from steelyard.balance.words import moment
from tests.builders import a_job
from tests.unit.balance.pipeline import START, Pipeline
from tests.unit.balance.replicas import Setup


@dataclass
class Loop:
    """A job under the balance's hand."""

    job: AgenticRLJob
    setup: Setup = field(default_factory=Setup)
    revisions: list[AllocationRevision] = field(default_factory=list)
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    window_seconds: float = 60.0
    blind: bool = False
    """Whether the metrics source is lost."""

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(self.job, self.setup)

    def run(self, seconds: float) -> Loop:
        interval = float(self.job.spec.scaling.interval_seconds)
        for _ in range(round(seconds / interval)):
            self.tick()
            self.pipeline.advance(interval)
        return self

    def tick(self) -> Plan:
        plan = balance(self.seen(), self.rates(), self.pipeline.now)
        if plan.revision:
            stamped = plan.revision.metadata.model_copy(update={"creation_timestamp": moment(self.pipeline.now)})
            self.revisions.append(plan.revision.model_copy(update={"metadata": stamped}))
        self.revisions = [
            one.model_copy(update={"status": plan.updates.get(one.metadata.name, one.status)}) for one in self.revisions
        ]
        self.pipeline.apply(self.active.spec.allocation.after)
        self.window_seconds = plan.window_seconds
        self._note(plan.decision)
        return plan

    def seen(self) -> Seen:
        return self.pipeline.seen(self.revisions)

    def rates(self) -> Rates:
        return Rates(self.window_seconds) if self.blind else self.pipeline.rates(self.window_seconds)

    @property
    def active(self) -> AllocationRevision:
        return [one for one in self.revisions if one.status.phase is not RevisionPhase.SUPERSEDED][-1]

    def _note(self, decision: Decision) -> None:
        if not self.decisions or (self.decisions[-1][1].action, self.decisions[-1][1].kind) != (
            decision.action,
            decision.kind,
        ):
            self.decisions.append((self.pipeline.now - START, decision))
        else:
            self.decisions[-1] = (self.decisions[-1][0], decision)


def demo_job(changes: Mapping[str, Any] | None = None) -> AgenticRLJob:
    """The demo: four GPUs, two samplers where one would do, one judge that is too slow, one environment replica."""
    return a_job(
        {
            "budget.gpus": 4,
            "algorithm": {"groupSize": 8, "promptsPerStep": 4, "steps": 2000, "maxStaleness": 2},
            "stages.sampler.replicas": {"min": 1, "max": 3, "initial": 2},
            "stages.sampler.engine": {"args": ["--max-num-seqs", "64"]},
            "stages.environment.replicas": {"min": 1, "max": 4},
            "stages.environment.concurrency": 8,
            "stages.rewardServer.replicas": {"min": 1, "max": 3},
            "scaling": {
                "intervalSeconds": 5,
                "cooldownSeconds": 10,
                "horizonSeconds": 600,
                "evaluation": {"settleSeconds": 5, "steps": 3},
            },
            **(changes or {}),
        }
    )
