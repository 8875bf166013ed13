"""What to do with the allocation this tick, each answer with its reason. `balance` has the order, this the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from steelyard.api import AgenticRLJobSpec, Allocation, AllocationRevision, Origin, Prediction, RevisionPhase
from steelyard.balance.allocate import Infeasible
from steelyard.balance.bounds import repaired, stage_bounds, user_hold
from steelyard.balance.counterfactual import throughput_error
from steelyard.balance.diagnose import symptoms, wait_graph
from steelyard.balance.diagnose.waits import WaitGraph
from steelyard.balance.estimate import Estimated, estimate
from steelyard.balance.gate import Case, Judged, veto
from steelyard.balance.ledger import inputs_of, is_open, known, successor
from steelyard.balance.model import Model, Promise
from steelyard.balance.observe import STEPS, Observed, observe
from steelyard.balance.outage import last_outage
from steelyard.balance.priors import start
from steelyard.balance.propose import Candidate, better_split, more_slots, unbounded_gain
from steelyard.balance.surroundings import surroundings
from steelyard.balance.types import Action, Decision, Finding, Instant, Rates, Seen
from steelyard.balance.words import changes, instant, number, percent


@dataclass(frozen=True)
class Picture:
    """Everything one tick knows about the active revision."""

    seen: Seen
    active: AllocationRevision
    observed: Observed
    estimated: Estimated
    now: Instant
    waits: WaitGraph = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    """Symptoms, the most urgent first."""
    too_little: str | None = None
    """How few steps were measured, None when they are enough to decide on."""

    @cached_property
    def most_gain(self) -> float | None:
        """The most that any allocation within the spec could gain, None while that is unknown."""
        model = self.estimated.model
        if model is None or self.observed.missing:
            return None
        return unbounded_gain(model, self.seen.job.spec, self.active.spec.allocation.after)

    @cached_property
    def promise(self) -> Promise | None:
        model = self.estimated.model
        return model.promise(self.active.spec.allocation.after) if model else None

    @property
    def inputs(self) -> Mapping[str, str]:
        """What a decision of this tick is made from, as the ledger stores it; empty before anything was measured."""
        model, throughput = self.estimated.model, self.observed.throughput
        return inputs_of(model, throughput, throughput_error(self.observed)) if model and throughput else {}


@dataclass(frozen=True)
class Outcome:
    """A decision and the revision that carries it out, if any."""

    decision: Decision
    revision: AllocationRevision | None = None


def look(seen: Seen, active: AllocationRevision, rates: Rates, now: Instant) -> Picture:
    """Observe and estimate over the time in which the allocation that runs now was in force: since the last outage,
    once that is long enough to decide on."""
    running = active
    if active.status.phase is RevisionPhase.PENDING:  # not applied yet: what it replaces still runs
        running = next((one for one in seen.revisions if one.metadata.name == active.spec.parent), active)
    status = running.status
    since = instant(status.measuring_time) or instant(status.settling_time) or instant(status.applied_time) or 0.0
    spec, outage = seen.job.spec, last_outage(seen, rates, since, now)
    observed = observe(seen, rates, now, outage.over if outage else since)
    when = f"since the outage of the {outage.part}" if outage else f"under {active.metadata.name}"
    too_little = _too_little(observed, spec, when)
    if outage and too_little:
        observed = observe(seen, rates, now, since)
    estimated = estimate(observed, spec, known(seen.revisions))
    waits = wait_graph(observed)
    findings = symptoms(observed, waits, surroundings(rates, now), spec)
    return Picture(seen, active, observed, estimated, now, waits, findings, too_little)


def _too_little(observed: Observed, spec: AgenticRLJobSpec, when: str) -> str | None:
    window, wanted = observed.window, min(spec.scaling.evaluation.steps, STEPS)
    if observed.throughput is not None and (window.steps >= wanted or window.full):
        return None
    return f"only {window.steps} of {wanted} training steps were measured {when}"


def hold(kind: str, reason: str) -> Outcome:
    return Outcome(Decision(Action.HOLD, kind, reason))


def first(seen: Seen) -> Outcome:
    """The job's first revision; no metrics are needed to start."""
    revision = successor(seen, repaired(seen.job.spec, start(seen.job.spec)), "initial allocation")
    return Outcome(
        Decision(Action.INITIAL, "Initial", f"initial allocation: {revision.spec.allocation.after}"), revision
    )


def suspended(picture: Picture) -> Outcome | None:
    return hold("Suspended", "no change because the job is suspended") if picture.seen.job.spec.suspend else None


def refused(picture: Picture) -> Outcome | None:
    """A revision written by hand that the spec does not allow is never applied."""
    active = picture.active
    if active.spec.origin is not Origin.USER or active.status.phase is not RevisionPhase.PENDING:
        return None
    wanted = active.spec.allocation.after
    allowed = repaired(picture.seen.job.spec, wanted)
    if allowed == wanted or active.spec.parent is None:
        return None
    return roll_back(picture, f"spec.stages and spec.budget do not allow it; they would allow {allowed}")


def pinned(picture: Picture) -> Outcome | None:
    seen, pin = picture.seen, picture.seen.job.spec.scaling.pin
    if pin is None:
        return None
    found = next((one for one in seen.revisions if one.metadata.name == pin), None)
    if found is None:
        return hold("Pinned", f"no change because the pinned revision {pin} does not exist")
    return _become(picture, found.spec.allocation.after, "Pinned", f"pinned to {pin}")


def out_of_bounds(picture: Picture) -> Outcome | None:
    current = picture.active.spec.allocation.after
    within = repaired(picture.seen.job.spec, current)
    if within == current:
        return None
    return _become(picture, within, "Bounds", "spec and pool no longer allow the allocation")


def held(picture: Picture) -> Outcome | None:
    why = user_hold(picture.active, picture.now)
    return hold("Held", f"no change because {why}") if why else None


def fixed(picture: Picture) -> Outcome | None:
    spec, active = picture.seen.job.spec, picture.active
    tried = active.spec.origin is Origin.USER and is_open(active)
    if spec.scaling.mode != "Fixed" or tried:
        return None
    return _become(picture, spec.initial_allocation, "Fixed", "mode Fixed")


ORDERS: Mapping[str, Callable[[Picture], Outcome | None]] = {
    "Pinned": pinned,
    "Bounds": out_of_bounds,
    "Held": held,
    "Fixed": fixed,
}
"""What users demand whatever is measured, the strongest first: a pin, the spec's bounds, a hold, mode Fixed."""


def directed(picture: Picture) -> Outcome | None:
    """The first order that says something."""
    return next((outcome for order in ORDERS.values() if (outcome := order(picture)) is not None), None)


def _become(picture: Picture, wanted: Allocation, kind: str, why: str) -> Outcome:
    active = picture.active
    current, target = active.spec.allocation.after, repaired(picture.seen.job.spec, wanted)
    if target == current:
        return hold(kind, f"no change because {why} holds {current}")
    reason = f"{why}: {changes(current, target)}"
    still_held = kind == "Bounds" and user_hold(active, picture.now) is not None
    revision = successor(
        picture.seen,
        target,
        reason,
        origin=Origin.USER if still_held else Origin.OPERATOR,
        expires_at=active.spec.expires_at if still_held else None,
        inputs=picture.inputs,
    )
    return Outcome(Decision(Action.MOVE, kind, reason), revision)


def roll_back(picture: Picture, evidence: str) -> Outcome:
    """Restore the parent's allocation in a new revision, which also keeps what the failed one taught."""
    failed = picture.active
    move = failed.spec.allocation
    target = repaired(picture.seen.job.spec, move.before)
    reason = f"{failed.metadata.name} is taken back ({changes(move.after, target)}): {evidence}"
    revision = successor(picture.seen, target, reason, origin=Origin.ROLLBACK, inputs=picture.inputs)
    return Outcome(Decision(Action.ROLLBACK, "RolledBack", reason), revision)


def unmeasured(picture: Picture, rates: Rates) -> Outcome | None:
    """Nothing moves on missing, partial or too little data; where steps are so long that no window holds as many as
    are asked for, on those that it holds."""
    if rates.unavailable:
        return hold("MetricsUnavailable", f"no change because {rates.unavailable.message}")
    if picture.observed.missing:
        return hold("MetricsIncomplete", f"no change because {'; '.join(picture.observed.missing)}")
    if picture.too_little:
        return hold("NoEvidence", f"no change because {picture.too_little}")
    if picture.estimated.model is None:
        return hold("NoEvidence", f"no change because {'; '.join(picture.estimated.unknown)}")
    return None


PROPOSALS = (more_slots, better_split)
"""What is tried, in order."""


def case_of(picture: Picture, candidate: Candidate, model: Model, throughput: float) -> Case:
    """A candidate with all that is needed to judge it."""
    seen = picture.seen
    step = seen.job.status.training.step if seen.job.status.training else None
    error = throughput_error(picture.observed)
    return Case(candidate, model, seen.job.spec, seen.revisions, throughput, step, picture.now, picture.findings, error)


def improve(picture: Picture, model: Model, throughput: float) -> Outcome:
    """The first candidate move that passes every gate, else the reason why none does."""
    seen, active = picture.seen, picture.active
    spec, current = seen.job.spec, active.spec.allocation.after
    bounds = stage_bounds(seen, current, picture.now)
    refused: list[Judged] = []
    for propose in PROPOSALS:
        candidate = propose(model, spec, current, bounds, seen.quota)
        if isinstance(candidate, Infeasible):
            return hold("Infeasible", f"no change because {candidate.constraint}")
        if candidate is None:
            continue
        case = case_of(picture, candidate, model, throughput)
        objection = veto(case)
        if objection is None:
            return _move(picture, case)
        refused.append(objection)
    frozen = [bound.frozen for bound in bounds.values() if bound.frozen]
    limits = [*frozen, *(bound.limited for bound in bounds.values() if bound.limited)]
    if refused and not (limits and all(one.kind == "DeadBand" for one in refused)):
        return hold(refused[-1].kind, refused[-1].reason)
    most_gain = picture.most_gain or 0.0
    if limits and most_gain * 100 >= max(spec.scaling.min_gain_percent, 1):
        return hold("Cooldown" if frozen else "Barred", f"no change because {'; '.join(limits)}")
    return _best(model.promise(current), most_gain)


def _best(promise: Promise, most_gain: float) -> Outcome:
    return hold(
        "Balanced",
        f"no change because no allowed move gains anything: {promise.binding} binds at {number(promise.throughput)} "
        f"trajectories/s, and no allocation within the spec would gain more than {percent(most_gain)}",
    )


def _move(picture: Picture, case: Case) -> Outcome:
    seen, candidate = picture.seen, case.candidate
    reason = _why(candidate, case.throughput)
    if seen.job.spec.scaling.mode == "Observe":
        return Outcome(Decision(Action.RECOMMEND, "Observe", f"mode Observe, would do: {reason}"))
    predicted = Prediction(
        gain_percent=round(min(candidate.gain, 1000.0) * 100), cost_seconds=round(min(case.cost.seconds, 1e6))
    )
    inputs = inputs_of(case.model, case.throughput, throughput_error(picture.observed))
    revision = successor(seen, candidate.after, reason, inputs=inputs, predicted=predicted)
    return Outcome(Decision(Action.MOVE, "Gain", reason), revision)


def _why(candidate: Candidate, throughput: float) -> str:
    old, new = candidate.old, candidate.new
    moved = changes(candidate.before, candidate.after)
    if candidate.gain <= 0 and candidate.gpus_saved > 0:
        return f"{moved}: frees {float(candidate.gpus_saved):g} GPUs at {percent(1 + candidate.gain)} of the throughput"
    return (
        f"{moved}: {old.binding} binds at {number(throughput)} trajectories/s; "
        f"{number(throughput * (1 + candidate.gain))} expected, then bound by {new.binding}"
    )
