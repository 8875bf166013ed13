"""Reading and writing the ledger: revisions, what they were decided from, and what they teach about later moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from steelyard.api import (
    Allocation,
    AllocationRevision,
    AllocationRevisionSpec,
    Move,
    ObjectMeta,
    Origin,
    Prediction,
    RevisionPhase,
    Stage,
    Verdict,
    revision_name,
)
from steelyard.balance.estimate import Known
from steelyard.balance.model import Bounds, Capacities, Estimate, Load, Model, TokenLatency, Workload
from steelyard.balance.types import Instant, Seen
from steelyard.balance.words import decimal, instant, sentence

STARTING_COST_SECONDS = {Stage.SAMPLER: 15.0, Stage.REWARD_SERVER: 5.0, Stage.TRAINER: 2.0, Stage.ENVIRONMENT: 2.0}
"""Seconds of old throughput that adding or removing one replica costs, until the ledger knows better."""

MOST_DOUBLINGS = 10
LOADS_KEPT = 3
"""Older loads say little: sequences may have grown since."""


Slot = tuple[Stage, str]


def successor(
    seen: Seen,
    after: Allocation,
    reason: str,
    *,
    origin: Origin = Origin.OPERATOR,
    inputs: Mapping[str, str] | None = None,
    predicted: Prediction | None = None,
) -> AllocationRevision:
    """The next revision of the job's ledger."""
    active = seen.active
    number = max((revision.spec.number for revision in seen.revisions), default=0) + 1
    job = seen.job.metadata
    return AllocationRevision(
        metadata=ObjectMeta(name=revision_name(job.name, number), namespace=job.namespace),
        spec=AllocationRevisionSpec(
            number=number,
            parent=active.metadata.name if active else None,
            origin=origin,
            allocation=Move(before=active.spec.allocation.after if active else Allocation(), after=after),
            reason=sentence(reason),
            inputs=dict(inputs or {}),
            predicted=predicted,
        ),
    )


def is_open(revision: AllocationRevision) -> bool:
    """Not judged yet: nothing else may move, or its effect could not be told apart."""
    return revision.status.phase in (RevisionPhase.PENDING, RevisionPhase.APPLYING, RevisionPhase.SETTLING)


def is_trial(revision: AllocationRevision) -> bool:
    """A move the balance made on its own expectation, and therefore may take back."""
    return revision.spec.origin is Origin.OPERATOR and revision.spec.predicted is not None


def made_at(revision: AllocationRevision) -> Instant | None:
    return instant(revision.metadata.creation_timestamp) or instant(revision.status.applied_time)


def last_change(revisions: Sequence[AllocationRevision], stage: Stage) -> AllocationRevision | None:
    """The newest revision that moved `stage`, the first one (which moved nothing) not counted."""
    for revision in sorted(revisions, key=lambda revision: -revision.spec.number):
        move = revision.spec.allocation
        if revision.spec.parent is not None and dict(move.before[stage]) != dict(move.after[stage]):
            return revision
    return None


def trials(revisions: Sequence[AllocationRevision]) -> Iterator[AllocationRevision]:
    """The balance's own judged moves, newest first."""
    for revision in sorted(revisions, key=lambda revision: -revision.spec.number):
        if is_trial(revision) and revision.status.verdict is not None:
            yield revision


def failures_in_a_row(revisions: Sequence[AllocationRevision]) -> list[AllocationRevision]:
    """The newest moves that were rolled back one after the other."""
    failed = []
    for revision in trials(revisions):
        if revision.status.verdict is not Verdict.ROLLED_BACK:
            break
        failed.append(revision)
    return failed


def failures_of(revisions: Sequence[AllocationRevision], target: Allocation) -> list[AllocationRevision]:
    """Every move to `target` that was rolled back, newest first."""
    return [
        revision
        for revision in trials(revisions)
        if revision.status.verdict is Verdict.ROLLED_BACK and revision.spec.allocation.after == target
    ]


def barred_until(failures: Sequence[AllocationRevision], horizon_seconds: float) -> Instant:
    """What failed (newest first) is not tried again for the horizon, twice as long after each further failure."""
    if not failures:
        return 0.0
    at = instant(failures[0].status.judged_time) or made_at(failures[0]) or 0.0
    return at + horizon_seconds * 2.0 ** min(len(failures) - 1, MOST_DOUBLINGS)


def barred_profiles(revisions: Sequence[AllocationRevision], horizon_seconds: float, now: Instant) -> set[Slot]:
    """(stage, profile) that a move introduced and that was rolled back for it, as long as the bar lasts."""
    failures: dict[Slot, list[AllocationRevision]] = {}
    for revision in trials(revisions):
        move = revision.spec.allocation
        if revision.status.verdict is Verdict.ROLLED_BACK:
            for (stage, profile), change in move.before.diff(move.after).items():
                if change > 0 and profile not in move.before[stage]:
                    failures.setdefault((stage, profile), []).append(revision)
    return {slot for slot, failed in failures.items() if barred_until(failed, horizon_seconds) > now}


def transition_cost(revisions: Sequence[AllocationRevision], before: Allocation, after: Allocation) -> float:
    """Expected cost of a move in seconds of the old throughput: what moves of its kind cost, else a first guess."""
    kind = {stage for stage, _ in before.diff(after)}
    learned = [
        float(cost)
        for revision in trials(revisions)
        if {stage for stage, _ in revision.spec.allocation.before.diff(revision.spec.allocation.after)} == kind
        and (measured := revision.status.measured) is not None
        and (cost := measured.transition_cost_seconds) is not None
    ]
    if learned:
        return sum(learned) / len(learned)
    return sum(STARTING_COST_SECONDS[stage] * abs(change) for (stage, _), change in before.diff(after).items())


def inputs_of(model: Model, throughput: float) -> dict[str, str]:
    """What a decision was made from, flat, as the ledger stores it; `model_of` reads it back."""
    workload, capacities = model.workload, model.capacities
    figures = {
        "throughput": throughput,
        "batch": model.bounds.batch,
        "open": model.bounds.open,
        "workload.tokens": workload.tokens,
        "workload.outsideSeconds": workload.outside_seconds,
        "workload.waitingSeconds": workload.waiting_seconds,
        "workload.overheadSeconds": workload.overhead_seconds,
        "workload.error": workload.error,
        "capacity.slots": capacities.slots,
        "capacity.syncSeconds": capacities.sync_seconds,
        "capacity.trainerSeconds": capacities.trainer_seconds,
    }
    figures.update({f"backlog.{stage}": rate for stage, rate in model.catching_up.items()})
    for profile, load in capacities.loads.items():
        for name in ("running", "latency", "tokens"):
            figures[f"load.{name}.{profile}"] = getattr(load, name)
    figures.update({f"visits.{stage}": visits for stage, visits in workload.visits.items()})
    for stage, profiles in capacities.rates.items():
        for profile, rate in profiles.items():
            figures[f"rate.{stage}.{profile}"] = rate.value
            figures[f"error.{stage}.{profile}"] = rate.error
    for profile, latency in capacities.latency.items():
        for name in ("alpha", "beta", "most", "error"):
            figures[f"latency.{name}.{profile}"] = getattr(latency, name)
    return {name: decimal(figure) for name, figure in sorted(figures.items())}


def model_of(inputs: Mapping[str, str]) -> Model | None:
    """The model that `inputs_of` wrote; None when the inputs are not ours or not whole."""
    try:
        figures = {name: float(text) for name, text in inputs.items()}
        if not all(isfinite(figure) for figure in figures.values()):
            return None
        return _model(figures)
    except (KeyError, ValueError):
        return None


def throughput_of(inputs: Mapping[str, str]) -> float:
    """Trajectories per second measured before the decision, 0 when nothing was."""
    try:
        throughput = float(inputs.get("throughput", "0"))
    except ValueError:
        return 0.0
    return throughput if isfinite(throughput) and throughput > 0 else 0.0


def _model(figures: Mapping[str, float]) -> Model:
    rates: dict[Stage, dict[str, Estimate]] = {}
    latency: dict[str, TokenLatency] = {}
    loads: dict[str, Load] = {}
    for name, figure in figures.items():
        kind, _, rest = name.partition(".")
        if kind == "rate":
            stage, _, profile = rest.partition(".")
            rates.setdefault(Stage(stage), {})[profile] = Estimate(figure, figures[f"error.{rest}"])
        if name.startswith("latency.alpha."):
            profile = name.removeprefix("latency.alpha.")
            latency[profile] = TokenLatency(
                figure, *(figures[f"latency.{other}.{profile}"] for other in ("beta", "most", "error"))
            )
        if name.startswith("load.running."):
            profile = name.removeprefix("load.running.")
            loads[profile] = Load(figure, figures[f"load.latency.{profile}"], figures[f"load.tokens.{profile}"])
    workload = Workload(
        figures["workload.tokens"],
        figures["workload.outsideSeconds"],
        figures["workload.waitingSeconds"],
        figures["workload.overheadSeconds"],
        figures["workload.error"],
        _by_stage(figures, "visits."),
    )
    capacities = Capacities(
        rates,
        latency,
        loads,
        figures["capacity.slots"],
        figures["capacity.syncSeconds"],
        figures["capacity.trainerSeconds"],
    )
    bounds = Bounds(int(figures["batch"]), int(figures["open"]))
    return Model(workload, capacities, bounds, _by_stage(figures, "backlog."))


def _by_stage(figures: Mapping[str, float], prefix: str) -> dict[Stage, float]:
    return {Stage(name.removeprefix(prefix)): value for name, value in figures.items() if name.startswith(prefix)}


def known(revisions: Sequence[AllocationRevision]) -> Known:
    """What the ledger remembers: the newest figure of every profile, and the last loads of each sampler profile."""
    rates: dict[Stage, dict[str, Estimate]] = {}
    latency: dict[str, TokenLatency] = {}
    loads: dict[str, list[Load]] = {}
    for revision in sorted(revisions, key=lambda revision: revision.spec.number):
        model = model_of(revision.spec.inputs)
        if model is None:
            continue
        ran = revision.spec.allocation.before  # the inputs were measured under it; other profiles were expectations
        for stage, profiles in model.capacities.rates.items():
            measured = {profile: rate for profile, rate in profiles.items() if profile in ran[stage]}
            rates.setdefault(stage, {}).update(measured)
        for profile in ran[Stage.SAMPLER]:
            if profile in model.capacities.latency:
                latency[profile] = model.capacities.latency[profile]
            if profile in model.capacities.loads:
                loads[profile] = [*loads.get(profile, []), model.capacities.loads[profile]][-LOADS_KEPT:]
    return Known(Capacities(rates, latency), loads)
