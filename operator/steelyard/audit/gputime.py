"""Where the GPUs' time went: every GPU-second that was held is booked on one state of one stage, and on nothing twice.

A stage holds the replicas that were seen, or those that its ledger asked for where these are more. The time of the
seen ones goes to the states of their slots; what was held and not seen (starting, or not scraped) is `unseen`. Where no
stage was seen at all, nothing is known and nothing is booked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steelyard.api import AllocationRevision, Stage
from steelyard.api.names import DEFAULT_PROFILE
from steelyard.audit.record import Grid, Record, Values
from steelyard.balance.types import Instant
from steelyard.balance.words import instant
from steelyard.pages.charts import stretches

UNSEEN = "unseen"
WORK = frozenset({"busy", "tool", "tokens"})
IDLE = frozenset({"starved", UNSEEN})
"""The rest waits: `blocked`, `paced`, `sync`, `drain`."""

Slot = tuple[Stage, str]
Prices = Mapping[Stage, Mapping[str, float]]
STAGES = {stage.value: stage for stage in Stage}


def kind(state: str) -> str:
    """`busy`, `idle` or `waiting`."""
    return "busy" if state in WORK else "idle" if state in IDLE else "waiting"


@dataclass(frozen=True)
class GpuTime:
    """GPU-hours by stage and state. None of it is known without prices: GPUs a replica of each profile."""

    hours: Mapping[Stage, Mapping[str, float]] = field(default_factory=dict)
    held: float = 0.0
    """GPU-hours that are booked; the sum of `hours`."""
    known_seconds: float = 0.0
    """Time in which some stage was seen."""

    def of(self, which: str) -> float:
        """GPU-hours `busy`, `waiting` or `idle`."""
        return sum(hours for states in self.hours.values() for state, hours in states.items() if kind(state) == which)

    @property
    def wasted(self) -> float:
        return self.of("waiting") + self.of("idle")

    @property
    def busy_share(self) -> float | None:
        return self.of("busy") / self.held if self.held > 0 else None

    def causes(self) -> list[tuple[Stage, str, float]]:
        """(stage, state, GPU-hours) of all that was no work, the most first."""
        found = [
            (stage, state, hours)
            for stage, states in self.hours.items()
            for state, hours in states.items()
            if kind(state) != "busy" and hours > 0
        ]
        return sorted(found, key=lambda cause: (-cause[2], cause[0], cause[1]))


def prices_of(record: Record) -> Prices | None:
    """GPUs a replica, by stage and profile; None when the job is gone, or its spec lacks a profile that ran."""
    if record.job is None or unpriced(record):
        return None
    return {
        stage: {name: float(gpus) for name, gpus in profiles.items()}
        for stage, profiles in record.job.spec.gpu_prices.items()
    }


def unpriced(record: Record) -> list[Slot]:
    """Profiles that had replicas and that the job's spec has no more: nothing says how many GPUs they took."""
    if record.job is None:
        return []
    ran = {
        slot
        for found in (replicas(record), asked_for(record.revisions, record.grid))
        for slot in found
        if any(found[slot])
    }
    return sorted((stage, profile) for stage, profile in ran if profile not in record.job.spec.stage(stage).profiles)


def gpu_time(record: Record, prices: Prices) -> GpuTime:
    """Books every second of every GPU that was held."""
    seen, shares = replicas(record), state_shares(record)
    asked = asked_for(record.revisions, record.grid)
    known = [any(values[index] for values in seen.values()) for index in range(record.grid.count)]
    hours: dict[Stage, dict[str, float]] = {}
    for slot in sorted({*seen, *asked}):
        price = prices.get(slot[0], {}).get(slot[1], 0.0)
        if price > 0:
            booked = hours.setdefault(slot[0], {})
            for index in (index for index, sure in enumerate(known) if sure):
                there = seen[slot][index] or 0.0 if slot in seen else 0.0
                wanted = asked[slot][index] or 0.0 if slot in asked else 0.0
                for state, replicas_in in _split(there, wanted, shares.get(slot, {}), index):
                    booked[state] = booked.get(state, 0.0) + replicas_in * price * record.grid.step / 3600
    held = sum(spent for states in hours.values() for spent in states.values())
    return GpuTime(hours, held, sum(known) * record.grid.step)


def _split(there: float, wanted: float, shares: Mapping[str, Values], index: int) -> Iterator[tuple[str, float]]:
    """Replicas by state at one instant; they sum to the greater of those there and those wanted."""
    told = {state: share for state, values in shares.items() if (share := values[index]) is not None}
    if told:
        yield from ((state, share * there) for state, share in told.items())
    yield UNSEEN, max(wanted - there, 0.0) + (0.0 if told else there)


def measured(record: Record) -> tuple[tuple[Instant, Instant], ...]:
    """The stretches of time in which some replica of some stage was seen; of all other time nothing is known."""
    seen = replicas(record).values()
    there = [1.0 if any(values[index] for values in seen) else None for index in range(record.grid.count)]
    first = record.grid.start - record.grid.step
    return tuple((first + begin * record.grid.step, first + end * record.grid.step) for begin, end in stretches(there))


def replicas(record: Record) -> dict[Slot, Values]:
    """(stage, profile) -> replicas that were scraped, over the grid."""
    return {slot: line.values for line in record.of("replicas") if (slot := slot_of(line.labels)) is not None}


def state_shares(record: Record) -> dict[Slot, dict[str, Values]]:
    """(stage, profile) -> state -> share of its slots' time. At an instant they sum to 1, or all are None."""
    rates: dict[Slot, dict[str, Values]] = {}
    for line in record.of("states"):
        if (slot := slot_of(line.labels)) is not None:
            rates.setdefault(slot, {})[line.label("state")] = line.values
    return {slot: shares(states) for slot, states in rates.items()}


def shares(rates: Mapping[str, Values]) -> dict[str, Values]:
    """Each rate over the sum of all at its instant; unknown where none is known or nothing ran."""
    totals = [sum(value or 0.0 for value in values) for values in zip(*rates.values(), strict=True)]
    return {
        name: tuple((value or 0.0) / total if total > 0 else None for value, total in zip(values, totals, strict=True))
        for name, values in rates.items()
    }


def slot_of(labels: Mapping[str, str]) -> Slot | None:
    """Where a line belongs; None for what is no stage."""
    stage = STAGES.get(labels.get("stage", ""))
    return None if stage is None else (stage, labels.get("profile") or DEFAULT_PROFILE)


@dataclass(frozen=True)
class Reign:
    """The time in which one revision was in force."""

    revision: AllocationRevision
    start: Instant
    end: Instant

    @property
    def seconds(self) -> float:
        return self.end - self.start


def reigns(revisions: tuple[AllocationRevision, ...], start: Instant, end: Instant) -> tuple[Reign, ...]:
    """Which revision was in force when, within the span; from its application until the next one's."""
    applied = sorted(
        ((at, one.spec.number, one) for one in revisions if (at := instant(one.status.applied_time)) is not None),
        key=lambda row: row[:2],
    )
    ends = [at for at, _, _ in (*applied, (end, 0, None))][1:]
    found = [Reign(one, max(at, start), min(until, end)) for (at, _, one), until in zip(applied, ends, strict=True)]
    return tuple(reign for reign in found if reign.seconds > 0)


def asked_for(revisions: tuple[AllocationRevision, ...], grid: Grid) -> dict[Slot, Values]:
    """(stage, profile) -> replicas that the ledger asked for over the grid; None before its first entry."""
    found: dict[Slot, list[float | None]] = {}
    spans = reigns(revisions, grid.start - grid.step, grid.end)
    slots = {(stage, profile) for span in spans for stage, profile, _ in span.revision.spec.allocation.after.entries()}
    for slot in slots:
        found[slot] = [None] * grid.count
    for index, at in enumerate(grid.instants):
        span = next((span for span in spans if span.start < at <= span.end), None)
        for stage, profile in slots:
            if span is not None:
                found[stage, profile][index] = float(span.revision.spec.allocation.after[stage].get(profile, 0))
    return {slot: tuple(values) for slot, values in found.items()}
