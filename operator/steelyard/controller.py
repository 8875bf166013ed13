"""One coroutine per job: look, balance, record, apply, report. The only place where reading, deciding and writing meet.

Every tick starts from what is there, so an operator killed at any line does the rest of the same move when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from steelyard.api import AgenticRLJob, Allocation, JobStatus
from steelyard.balance import balance
from steelyard.balance.types import Action, Decision, Fact, Instant, Plan, Rates, Seen
from steelyard.children.common import Images, Manifest
from steelyard.children.render import ending, frozen_images, render
from steelyard.cluster import Change, Cluster, ClusterError, JobKey, NotLeader, Refused, View
from steelyard.cluster.view import seen
from steelyard.metrics import Metrics
from steelyard.status import Tick, lacking, status, status_of_broken, worth_writing
from steelyard.status.narration import Event, of_changes, of_plan, of_transitions
from steelyard.status.victims import deletion_costs
from steelyard.telemetry import Telemetry

log = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 0.05
BACKOFF_SECONDS = (1.0, 60.0)
BROKEN_SECONDS = 60.0


@dataclass(frozen=True)
class Dependencies:
    """What a job's coroutine works with."""

    cluster: Cluster
    metrics: Metrics
    images: Images
    telemetry: Telemetry
    clock: Callable[[], Instant]


class Job:
    """One job's story. It remembers only what would be a pity, not wrong, to forget."""

    def __init__(self, key: JobKey, deps: Dependencies) -> None:
        self.key = key
        self._deps, self._cluster = deps, deps.cluster
        self._window_seconds = 60.0
        self._unready_since: Instant | None = None
        self._numbers_written = deps.clock()

    async def tick(self, now: Instant) -> float | None:
        """One round; returns the seconds until the next, None when there is no such job any more."""
        view = self._cluster.view(self.key)
        if view is None or view.job.deleting:
            return None
        if (job := view.job.resource) is None:
            await self._report(view, status_of_broken(view.job, now), [], now)
            return BROKEN_SECONDS
        before = seen(view, job)
        rates = await self._deps.metrics.read(job, before.pods(), now, self._window_seconds)
        images = frozen_images(view, job, self._deps.images)
        ended = ending(view, job, images)
        plan = await self._record(job, at_rest(before) if ended else balance(before, rates, now))
        assert plan.active or ended, "a job that lives has an allocation"
        allocation = plan.active.spec.allocation.after if plan.active else Allocation()
        changes, refused = await self._apply(view, render(view, job, allocation, images, ended, now), rates)
        tick = await self._learnt(Tick(view, job, plan, rates, now, ended, refused))
        await self._report(view, status(tick), [*of_plan(plan), *of_changes(changes)], now)
        self._window_seconds = plan.window_seconds
        return plan.wake

    async def _record(self, job: AgenticRLJob, plan: Plan) -> Plan:
        """First the ledger: nothing is applied that no revision holds. What the ledger holds already wins."""
        await self._cluster.annotate(job, plan.updates)
        if plan.revision is None:
            return plan
        recorded = await self._cluster.record(job, plan.revision)
        self._deps.telemetry.revisions.labels(plan.decision.action).inc()
        return replace(plan, active=recorded)

    async def _apply(self, view: View, wanted: Sequence[Manifest], rates: Rates) -> tuple[list[Change], str | None]:
        """What was changed, or what the API server would not take."""
        try:
            return await self._cluster.apply(view, wanted, deletion_costs(view, rates)), None
        except Refused as error:
            return [], str(error)

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


def at_rest(before: Seen) -> Plan:
    """A job that has ended is not balanced any more."""
    over = Fact(False, "Ended", "the job has ended")
    return Plan(
        Decision(Action.HOLD, "Ended", "no change because the job has ended"),
        before.active,
        metrics=over,
        balanced=over,
    )


class Controller:
    """Supervises the jobs: each has its own coroutine, and what goes wrong in one stays there."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self._wakes: dict[JobKey, asyncio.Event] = {}
        self._tasks: dict[JobKey, asyncio.Task[None]] = {}
        self._stopped = False

    @property
    def jobs(self) -> int:
        return len(self._tasks)

    def wake(self, key: JobKey) -> None:
        """Something about this job changed; it may be a job we have not met."""
        if self._stopped:
            return
        self._wakes.setdefault(key, asyncio.Event()).set()
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._supervise(key), name=f"job {'/'.join(key)}")

    async def stop(self) -> None:
        """End all coroutines; nothing wakes any more."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _supervise(self, key: JobKey) -> None:
        job, wake, failures = Job(key, self._deps), self._wakes[key], 0
        try:
            while True:
                wake.clear()
                pause, failed = await self._round(job, failures)
                failures = failures + 1 if failed else 0
                if failed and pause:
                    await asyncio.sleep(pause)  # a watch event is no reason to fail again at once
                elif pause is not None:
                    await _wait(wake, pause)
                elif not wake.is_set():
                    return
        finally:
            del self._tasks[key], self._wakes[key]

    async def _round(self, job: Job, failures: int) -> tuple[float | None, bool]:
        """One tick and the seconds to wait after it; whether it failed."""
        shortest, longest = BACKOFF_SECONDS
        backoff = min(shortest * 2**failures, longest)
        telemetry = self._deps.telemetry
        with telemetry.tick_seconds.time():
            try:
                pause = await job.tick(self._deps.clock())
            except NotLeader:
                telemetry.ticks.labels("not-leader").inc()
                return longest, False
            except ClusterError as error:
                log.info("%s/%s: again in %g s: %s", *job.key, backoff, error)
                telemetry.ticks.labels("retried").inc()
                return backoff, True
            except Exception as error:
                log.exception("%s/%s: a bug; again in %g s", *job.key, backoff)
                telemetry.ticks.labels("bug").inc()
                await self._confess(job.key, error)
                return backoff, True
        telemetry.ticks.labels("done").inc()
        return pause, False

    async def _confess(self, key: JobKey, error: Exception) -> None:
        if view := self._deps.cluster.view(key):
            said = f"the operator failed on this job and tries again: {type(error).__name__}: {error}"
            await self._deps.cluster.event(view, "Warning", "OperatorError", said)


async def _wait(wake: asyncio.Event, seconds: float) -> None:
    """Until woken or `seconds` have passed; a burst of changes is one wake."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return
    await asyncio.sleep(DEBOUNCE_SECONDS)
