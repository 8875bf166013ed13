"""One record of a job: what Prometheus and the ledger know of a span of time, and a sentence for all they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.audit import queries
from steelyard.audit.gputime import measured, reigns
from steelyard.audit.histogram import spread
from steelyard.audit.queries import Selector
from steelyard.audit.record import Grid, Record
from steelyard.balance import signals
from steelyard.balance.observe import SCRAPES, STEPS, longest_window
from steelyard.balance.types import Instant, PodView, Rates
from steelyard.metrics.history import History
from steelyard.twin.recording import Window

WINDOWS = 6
"""So many times the balance is asked what it would have said."""
WINDOW_MARGIN = 1.5
"""A window holds so many times what the balance needs, for steps do not end when windows begin."""
PROBES = 120
MOST_SENTENCES = 4


async def read(
    history: History,
    name: str,
    namespace: str,
    start: Instant,
    end: Instant,
    job: AgenticRLJob | None,
    revisions: Sequence[AllocationRevision],
) -> Record:
    """The record of `start` to `end`; single figures that could not be read are named in it.

    Raises Unavailable when Prometheus does not answer at all.
    """
    of = Selector(namespace, name, _profiles(job, revisions))
    ledger = tuple(sorted(revisions, key=lambda one: one.spec.number))
    record = Record(name, namespace, start, end, queries.grid(start, end), version("steelyard"), job, ledger)
    probed = await history.figure("the job's pods", queries.scrapes(of), _probes(start, end))
    if not probed:
        nothing = f"Prometheus knows no series of {namespace}/{name} in this time"
        return replace(record, missing=(*_gone(job, ledger), nothing))
    scrape = queries.COUNTED_SECONDS / max(count for count in probed[0].values if count)
    record = replace(record, totals=await history.totals(queries.totals(of, end - start), end))
    step = spread(record, "step_interval").mean
    lines = await history.lines(queries.lines(of, record.grid, scrape, step), record.grid)
    record = replace(record, lines=lines)
    windows = await _windows(history, of, measured(record), scrape, step, ledger)
    unread = list(dict.fromkeys(history.missing))
    few = unread[:MOST_SENTENCES] + (
        [f"and {len(unread) - MOST_SENTENCES} more"] if len(unread) > MOST_SENTENCES else []
    )
    return replace(record, windows=windows, missing=(*_gone(job, ledger), *few))


def _profiles(job: AgenticRLJob | None, revisions: Sequence[AllocationRevision]) -> tuple[str, ...]:
    """GPU profiles that the job's pods may be named after; none where the job is not known."""
    if job is None:
        return ()
    named = {profile for stage in Stage for profile in job.spec.stage(stage).profiles}
    ruled = {profile for one in revisions for _, profile, _ in one.spec.allocation.after.entries()}
    return tuple(sorted(named | ruled))


def _gone(job: AgenticRLJob | None, ledger: Sequence[AllocationRevision]) -> tuple[str, ...]:
    """What is not known without the job or its ledger."""
    found = []
    if job is None:
        found.append("the job's spec cannot be read: what its replicas cost and what reallocation is worth is unknown")
    if not ledger:
        found.append("no revision of its ledger was read: moves and their verdicts are unknown")
    return tuple(found)


def _probes(start: Instant, end: Instant) -> Grid:
    step = max((end - start) / PROBES, 1.0)
    return Grid(start + step, step, max(int((end - start) / step), 1))


async def _windows(
    history: History,
    of: Selector,
    seen: Sequence[tuple[Instant, Instant]],
    scrape: float,
    step: float | None,
    ledger: tuple[AllocationRevision, ...],
) -> tuple[Window, ...]:
    """Raw samples of a few windows, evenly spread over the time in which there were any."""
    if not seen:
        return ()
    first, last = seen[0][0], seen[-1][1]
    wanted = WINDOW_MARGIN * max(SCRAPES * scrape, (STEPS + 1) * (step or 0.0))
    seconds = min(wanted, longest_window(scrape), last - first)
    ends = [last - index * (last - first - seconds) / WINDOWS for index in reversed(range(WINDOWS))]
    ends = ends if last - first > 2 * seconds else [last]
    asked = queries.raw(of, seconds)
    answers = await asyncio.gather(*(history.rates(asked, at, seconds) for at in ends))
    windows = [_window(of, rates, at, scrape, ledger) for rates, at in zip(answers, ends, strict=True)]
    return tuple(window for window in windows if window is not None)


def _window(
    of: Selector, rates: Rates, end: Instant, scrape: float, ledger: tuple[AllocationRevision, ...]
) -> Window | None:
    pods = tuple(_pods(of, rates, end - 2 * scrape))
    if not pods:
        return None
    start = end - rates.window_seconds
    ruling = [reign.revision.spec.allocation.after for reign in reigns(ledger, start, end)]
    return Window(ruling[-1] if ruling else _counted(pods), start, end, pods, rates)


def _pods(of: Selector, rates: Rates, fresh: Instant) -> list[PodView]:
    """The pods that were scraped; one that was no longer scraped at the end is on its way out."""
    found = []
    for name, series in sorted(rates.samples.get(signals.STAGE_SECONDS, {}).items()):
        if (place := of.pod(name)) is not None:
            there = max(samples[-1][0] for one in series if (samples := one.samples)) >= fresh
            found.append(PodView(name, name, *place, ready=there, terminating=not there))
    return found


def _counted(pods: Sequence[PodView]) -> Allocation:
    """The allocation that the pods are, where no ledger says it."""
    counts: dict[Stage, dict[str, int]] = {}
    for pod in pods:
        if pod.ready:
            profiles = counts.setdefault(pod.stage, {})
            profiles[pod.profile] = profiles.get(pod.profile, 0) + 1
    return Allocation.of(counts)
