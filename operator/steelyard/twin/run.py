"""One policy on one profile from the first step to the last."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Protocol

from steelyard.api import Allocation, AllocationRevision, Stage
from steelyard.balance import balance
from steelyard.balance.types import Decision, Instant
from steelyard.balance.words import moment
from steelyard.twin.engine import START, Pipeline
from steelyard.twin.jobs import best_split, job_of
from steelyard.twin.profiles import Profile


class Policy(Protocol):
    """Decides on the allocation while the pipeline runs."""

    @property
    def interval_seconds(self) -> float:
        """Simulated seconds between two calls of `decide`; infinite when it never decides."""

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        """The allocation to apply now, None to change nothing."""


@dataclass(frozen=True)
class Change:
    """An allocation that was applied."""

    at: Instant
    step: int
    allocation: Allocation


@dataclass(frozen=True)
class Run:
    """What became of one run."""

    profile: Profile
    seed: int
    step_ends: tuple[Instant, ...]
    trained: int
    gpu_hours: float
    changes: tuple[Change, ...]
    """The first allocation and every change."""
    moves: int
    """Replicas, or blocks of the trainer's GPUs, started by the changes."""
    events: int

    @property
    def seconds(self) -> float:
        return self.step_ends[-1] - START

    @property
    def throughput(self) -> float:
        """Trajectories trained per second."""
        return self.trained / self.seconds


def run(profile: Profile, policy: Policy, seed: int, allocation: Allocation | None = None) -> Run:
    """Run the profile to its end, from `allocation` (else where its job starts)."""
    first = allocation or best_split(profile)
    pipeline = Pipeline(profile, first, seed)
    changes = [Change(pipeline.now, 0, first)]
    while not pipeline.done:
        decided = policy.decide(pipeline) if policy.interval_seconds < inf else None
        if decided is not None and decided != pipeline.allocation:
            pipeline.apply(decided)
            changes.append(Change(pipeline.now, pipeline.step, decided))
        pipeline.run_until(pipeline.now + policy.interval_seconds)
    meters = pipeline.meters()
    return Run(
        profile,
        seed,
        tuple(pipeline.step_ends),
        pipeline.trained,
        sum(meter.gpu_seconds for meter in meters.values()) / 3600,
        tuple(changes),
        moves(profile, [change.allocation for change in changes]),
        pipeline.events,
    )


def moves(profile: Profile, allocations: list[Allocation]) -> int:
    """Replicas that were started from one allocation to the next; of the trainer, blocks of GPUs."""
    prices = job_of(profile, allocations[0]).spec.gpu_prices
    started = 0
    for before, after in pairwise(allocations):
        for stage in (Stage.SAMPLER, Stage.REWARD_SERVER):
            started += max(after.replicas(stage) - before.replicas(stage), 0)
        only = [Allocation.of({Stage.TRAINER: one[Stage.TRAINER]}) for one in (before, after)]
        grown = only[1].gpus(prices) - only[0].gpus(prices)
        started += max(-(-grown // profile.trainer.block), 0)
    return started


class Steelyard:
    """The operator's own balance, its ledger kept exactly as the controller keeps it."""

    def __init__(self, profile: Profile) -> None:
        self.interval_seconds = float(job_of(profile).spec.scaling.interval_seconds)
        self._window_seconds = 60.0
        self.revisions: list[AllocationRevision] = []
        self.decisions: list[tuple[Instant, Decision]] = []
        """Every decision that differs from the one before in action or kind."""

    def decide(self, pipeline: Pipeline) -> Allocation | None:
        """One tick of the operator: look, decide, write the ledger."""
        plan = balance(pipeline.seen(self.revisions), pipeline.rates(self._window_seconds), pipeline.now)
        if plan.revision is not None:
            stamped = plan.revision.metadata.model_copy(update={"creation_timestamp": moment(pipeline.now)})
            self.revisions.append(plan.revision.model_copy(update={"metadata": stamped}))
        self.revisions = [
            one.model_copy(update={"status": plan.updates.get(one.metadata.name, one.status)}) for one in self.revisions
        ]
        self._window_seconds, self.interval_seconds = plan.window_seconds, plan.wake
        self._note(pipeline.now, plan.decision)
        return plan.active.spec.allocation.after if plan.active else None

    def _note(self, now: Instant, decision: Decision) -> None:
        last = self.decisions[-1][1] if self.decisions else None
        if last is None or (last.action, last.kind) != (decision.action, decision.kind):
            self.decisions.append((now, decision))


class Static:
    """Never changes anything."""

    interval_seconds = inf

    def decide(self, pipeline: Pipeline) -> Allocation | None:  # noqa: ARG002 - the protocol's
        """Nothing to change."""
        return None
