"""Reading and writing the ledger: revisions, and what they were decided from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
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
    revision_name,
)
from steelyard.balance.closed_loop import TokenLatency
from steelyard.balance.counter import LARGEST
from steelyard.balance.known import Known, Remembered
from steelyard.balance.model import Bounds, Capacities, Estimate, Load, Model, Workload
from steelyard.balance.trainer_curve import TrainerCurve, TrainerSize
from steelyard.balance.types import Instant, Seen
from steelyard.balance.words import decimal, instant, sentence

LOADS_KEPT = 3
"""Older loads say little: sequences may have grown since."""
WHOLE = ("batch", "open")
POSITIVE = ("rate.", "latency.alpha.", "latency.most.", "load.", "capacity.slots")
LEAST = 1e-15
"""Of what is positive: less, or more than `counter.LARGEST`, is nothing that was ever measured."""
MOST_ERROR = 2.0
"""Relative standard error from which a figure says nothing."""


def successor(
    seen: Seen,
    after: Allocation,
    reason: str,
    *,
    origin: Origin = Origin.OPERATOR,
    expires_at: datetime | None = None,
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
            expires_at=expires_at,
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
    """A move that is taken back when it does harm: the balance's own, or what a user tried."""
    own = revision.spec.origin is Origin.OPERATOR and revision.spec.predicted is not None
    return own or (revision.spec.origin is Origin.USER and revision.spec.parent is not None)


def completed(revisions: Sequence[AllocationRevision]) -> tuple[AllocationRevision, ...]:
    """The ledger, oldest first, with what revisions written by hand leave out or cannot know.

    That is what they really replaced, and what was measured before: their status keeps it (`inputs`), else the
    throughput that the revision before them was judged by.
    """
    ledger: list[AllocationRevision] = []
    for revision in sorted(revisions, key=lambda revision: revision.spec.number):
        ledger.append(_completed(revision, ledger) if revision.spec.origin is Origin.USER else revision)
    return tuple(ledger)


def _completed(revision: AllocationRevision, earlier: Sequence[AllocationRevision]) -> AllocationRevision:
    applied = (one for one in reversed(earlier) if one.status.applied_time is not None)
    replaced = next(applied, earlier[-1] if earlier else None)
    if replaced is None:
        return revision.model_copy(update={"spec": revision.spec.model_copy(update={"parent": None})})
    measured = replaced.status.measured
    before = {"throughput": measured.throughput_after} if measured and measured.throughput_after else {}
    update = {
        "parent": replaced.metadata.name,
        "allocation": Move(before=replaced.spec.allocation.after, after=revision.spec.allocation.after),
        "inputs": revision.status.inputs or before,
    }
    return revision.model_copy(update={"spec": revision.spec.model_copy(update=update)})


def made_at(revision: AllocationRevision) -> Instant | None:
    return instant(revision.metadata.creation_timestamp) or instant(revision.status.applied_time)


def last_change(revisions: Sequence[AllocationRevision], stage: Stage) -> AllocationRevision | None:
    """The newest revision that moved `stage`, the first one (which moved nothing) not counted."""
    for revision in sorted(revisions, key=lambda revision: -revision.spec.number):
        move = revision.spec.allocation
        if revision.spec.parent is not None and dict(move.before[stage]) != dict(move.after[stage]):
            return revision
    return None


def inputs_of(model: Model, throughput: float, error: float = 0.0) -> dict[str, str]:
    """What a decision was made from, flat, as the ledger stores it; `model_of` and `throughput_of` read it back.

    `error` is the relative standard error of the measured `throughput`.
    """
    workload, capacities = model.workload, model.capacities
    figures = {
        "throughput": throughput,
        "throughputError": error,
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
    if capacities.trainer_curve.contention is not None:
        figures["trainer.contention"] = capacities.trainer_curve.contention
        figures["trainer.coherency"] = capacities.trainer_curve.coherency
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
    """The model that `inputs_of` wrote; None when the inputs are not ours or not whole, or say what cannot be."""
    try:
        figures = {name: float(text) for name, text in inputs.items()}
        return _model(figures) if all(_possible(*figure) for figure in figures.items()) else None
    except (KeyError, ValueError):
        return None


def _possible(name: str, figure: float) -> bool:
    if name.startswith("trainer."):  # a curve, whose coefficients are put right where it is read
        return isfinite(figure)
    least = 1.0 if name in WHOLE else LEAST if name.startswith(POSITIVE) else 0.0
    return least <= figure <= LARGEST


def throughput_of(inputs: Mapping[str, str]) -> float:
    """Trajectories per second measured before the decision, 0 when nothing was."""
    throughput = _figure(inputs, "throughput")
    return throughput if LEAST <= throughput <= LARGEST else 0.0


def throughput_error_of(inputs: Mapping[str, str]) -> float:
    """Its relative standard error, 0 when it is not known."""
    return min(max(_figure(inputs, "throughputError"), 0.0), MOST_ERROR)


def _figure(inputs: Mapping[str, str], name: str) -> float:
    try:
        figure = float(inputs.get(name, "0"))
    except ValueError:
        return 0.0
    return figure if isfinite(figure) else 0.0


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
        _curve(figures),
    )
    bounds = Bounds(int(figures["batch"]), int(figures["open"]))
    return Model(workload, capacities, bounds, _by_stage(figures, "backlog."))


def _curve(figures: Mapping[str, float]) -> TrainerCurve:
    if "trainer.contention" not in figures:
        return TrainerCurve()
    return TrainerCurve(max(figures["trainer.contention"], 0.0), max(figures.get("trainer.coherency", 0.0), 0.0))


def _by_stage(figures: Mapping[str, float], prefix: str) -> dict[Stage, float]:
    return {Stage(name.removeprefix(prefix)): value for name, value in figures.items() if name.startswith(prefix)}


def known(revisions: Sequence[AllocationRevision]) -> Known:
    """What the ledger remembers: the newest figure of every profile, and the last loads of each sampler profile."""
    rates: dict[Stage, dict[str, Remembered]] = {}
    latency: dict[str, TokenLatency] = {}
    loads: dict[str, list[Load]] = {}
    sizes: dict[str, list[TrainerSize]] = {}
    for revision in sorted(revisions, key=lambda revision: revision.spec.number):
        model = model_of(revision.spec.inputs)
        if model is None:
            continue
        ran = revision.spec.allocation.before  # the inputs were measured under it; other profiles were expectations
        for stage, profiles in model.capacities.rates.items():
            measured = Remembered(profiles, model.workload.tokens)
            rates.setdefault(stage, {}).update({profile: measured for profile in profiles if profile in ran[stage]})
        for profile, replicas in ran[Stage.TRAINER].items():
            single = model.capacities.rates.get(Stage.TRAINER, {}).get(profile)
            if single and len(ran[Stage.TRAINER]) == 1:
                rate = single.value * model.capacities.trainer_curve.speedup(replicas)
                sizes.setdefault(profile, []).append(TrainerSize(replicas, rate, model.workload.tokens))
        for profile in ran[Stage.SAMPLER]:
            if profile in model.capacities.latency:
                latency[profile] = model.capacities.latency[profile]
            if profile in model.capacities.loads:
                loads[profile] = [*loads.get(profile, []), model.capacities.loads[profile]][-LOADS_KEPT:]
    return Known(rates, latency, loads, sizes)
