"""One coroutine per job: look, balance, record, apply, report. The only place where reading, deciding and writing meet.

Every tick starts from what is there, so an operator killed at any line does the rest of the same move when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from steelyard.api import AgenticRLJob, Allocation, JobStatus
from steelyard.balance import balance
from steelyard.balance.model import Model
from steelyard.balance.types import Instant, Plan, Rates, Seen
from steelyard.children.common import Images, Manifest
from steelyard.children.render import ending, frozen_images, render
from steelyard.cluster.changes import Change
from steelyard.cluster.errors import Refused
from steelyard.cluster.problems import line
from steelyard.cluster.protocol import Cluster
from steelyard.cluster.quota import means
from steelyard.cluster.records import JobKey
from steelyard.cluster.view import View, seen
from steelyard.metrics import Metrics
from steelyard.resting import resting
from steelyard.status import Tick, lacking, signed_for, status, status_of_broken, worth_writing
from steelyard.status.narration import Event, of_changes, of_plan, of_transitions
from steelyard.status.victims import deletion_costs
from steelyard.supervisor import Supervisor
from steelyard.telemetry import Telemetry

BROKEN_SECONDS = 60.0
AT_ONCE = 0.0


@dataclass(frozen=True)
class Dependencies:
    """What a job's coroutine works with."""

    cluster: Cluster
    metrics: Metrics
    images: Images
    telemetry: Telemetry
    clock: Callable[[], Instant]
    measured: MutableMapping[JobKey, Model] = field(default_factory=dict)
    """What each job of a pool was last measured to be, for its pool. A pity, not wrong, to forget."""


class Job:
    """One job's story. It remembers only what would be a pity, not wrong, to forget."""

    def __init__(self, key: JobKey, deps: Dependencies) -> None:
        self.key, self.name = key, "/".join(key)
        self._deps, self._cluster = deps, deps.cluster
        self._window_seconds = 60.0
        self._unready_since: Instant | None = None
        self._numbers_written = deps.clock()

    async def tick(self, now: Instant) -> float | None:
        """One round; returns the seconds until the next, None when there is no such job any more."""
        view = self._cluster.view(self.key)
        if view is None or view.job.deleting:
            self._deps.measured.pop(self.key, None)
            self._deps.telemetry.jobs.forget(self.key)
            return None
        if (job := view.job.resource) is None:
            await self._report(view, broken := status_of_broken(view.job, now), [], now)
            self._deps.telemetry.jobs.show_broken(self.key, broken)
            return BROKEN_SECONDS
        images = frozen_images(view, job, self._deps.images)
        ended = ending(view, job, images)
        has = means(view, job, asks=not (ended or job.spec.suspend))
        if has.unsigned is not None:  # first the signature: nothing is used that its pool does not know of
            await self._cluster.set_status(view, signed_for(view.job.status, has.unsigned))
            return AT_ONCE
        before = seen(view, job.within(has.budget))
        rates = await self._read(job, before, now)
        plan, unrecorded = await self._record(job, before, resting(before, ended, has) or balance(before, rates, now))
        allocation = plan.active.spec.allocation.after if plan.active else Allocation()
        changes, refused = await self._apply(view, render(view, job, allocation, images, ended, has, now), rates)
        tick = await self._learnt(Tick(view, job, plan, rates, now, ended, unrecorded or refused, means=has))
        await self._report(view, told := status(tick), [*of_plan(plan), *of_changes(changes)], now)
        self._deps.telemetry.jobs.show(self.key, tick, told)
        self._window_seconds = plan.window_seconds
        if has.quota and plan.model:
            self._deps.measured[self.key] = plan.model
        return plan.wake

    async def confess(self, error: Exception) -> None:
        """Tell whoever looks at the job about a bug."""
        if view := self._cluster.view(self.key):
            said = f"the operator failed on this job and tries again: {type(error).__name__}: {error}"
            await self._cluster.event(view, "Warning", "OperatorError", said)

    async def _read(self, job: AgenticRLJob, before: Seen, now: Instant) -> Rates:
        telemetry = self._deps.telemetry
        with telemetry.metrics_read_seconds.time():
            rates = await self._deps.metrics.read(job, before.pods(), now, self._window_seconds)
        telemetry.metrics_reads.labels(rates.unavailable.problem if rates.unavailable else "ok").inc()
        return rates

    async def _record(self, job: AgenticRLJob, before: Seen, plan: Plan) -> tuple[Plan, str | None]:
        """First the ledger: nothing is applied that no revision holds. What the ledger holds already wins.

        Also returns what the API server would not take; then everything stays as it was before the plan.
        """
        try:
            await self._cluster.annotate(job, plan.updates)
            if plan.revision is None:
                return plan, None
            recorded = await self._cluster.record(job, plan.revision)
        except Refused as error:
            return replace(plan, active=before.active, revision=None, updates={}), line(str(error))
        self._deps.telemetry.revisions.labels(plan.decision.action).inc()
        return replace(plan, active=recorded), None

    async def _apply(self, view: View, wanted: Sequence[Manifest], rates: Rates) -> tuple[list[Change], str | None]:
        """What was changed, or what the API server would not take."""
        try:
            return await self._cluster.apply(view, wanted, deletion_costs(view, rates)), None
        except Refused as error:
            return [], line(str(error))

    async def _learnt(self, tick: Tick) -> Tick:
        """What no single look at the store tells: since when replicas are lacking, and what kubelets complain about."""
        self._unready_since = (self._unready_since or tick.now) if lacking(tick) else None
        stuck = await self._cluster.why_stuck(tick.view, tick.now)
        return replace(tick, stuck=stuck, unready_since=self._unready_since)

    async def _report(self, view: View, new: JobStatus, events: list[Event], now: Instant) -> None:
        old = view.job.status
        if worth_writing(old, new, now - self._numbers_written):
            await self._cluster.set_status(view, new)
            self._numbers_written = now
            events = [*events, *of_transitions(old, new)]
        for event in events:
            await self._cluster.event(view, event.kind, event.reason, event.message)


class Controller(Supervisor[JobKey]):
    """Supervises the jobs."""

    def __init__(self, deps: Dependencies) -> None:
        super().__init__(lambda key: Job(key, deps), deps.clock, deps.telemetry.ticks, deps.telemetry.tick_seconds)
