"""One decision, explained: what it rests on, what was wanted, what limited it in which order, what would change it.

The rules are those of the balance itself, asked one by one; nothing is decided here. People ask through `steelyard
explain` and `steelyard why-not`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steelyard.api import AgenticRLJob, AgenticRLJobSpec, Allocation, Stage, Verdict
from steelyard.balance import Weighed, decide, weigh
from steelyard.balance.allocate import Infeasible
from steelyard.balance.bounds import LIMITERS, Bounds, StageBounds, spec_bounds, stage_bounds
from steelyard.balance.decide import Picture
from steelyard.balance.gate import GATES, Judged
from steelyard.balance.inputs import Input, inputs
from steelyard.balance.model import Model
from steelyard.balance.propose import Candidate, better_split
from steelyard.balance.types import Instant, Plan, Rates, Seen
from steelyard.balance.words import changes, number, percent

MOST_REPLICAS = 1000
"""What the API admits for any stage."""
WORTH_SAYING = 0.01
"""Relative throughput that a limit must cost to be named as what would change the decision."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limiter of what may be wanted, and what it makes of the target."""

    kind: str
    before: Allocation
    after: Allocation
    throughput: float
    """Trajectories per second that the model promises for `after`."""
    reason: str
    remedy: str

    @property
    def binds(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Tried:
    """A move that was considered, and what every gate said of it."""

    candidate: Candidate
    gates: tuple[Judged, ...]

    @property
    def passed(self) -> bool:
        return all(gate.passed for gate in self.gates)


@dataclass(frozen=True)
class Trace:
    """A decision with everything that led to it."""

    plan: Plan
    current: Allocation
    inputs: tuple[Input, ...]
    orders: tuple[Judged, ...]
    """What comes before any weighing: what users demand, an open move, whether enough was measured."""
    wanted: Allocation | None = None
    """The best split of the job's own GPUs if nothing else mattered; None while no model is known."""
    wanted_throughput: float | None = None
    limits: tuple[Limit, ...] = ()
    tried: tuple[Tried, ...] = ()
    remedies: tuple[str, ...] = ()
    """What would change the decision, the nearest first."""
    model: Model | None = None


def trace(seen: Seen, rates: Rates, now: Instant, own: AgenticRLJob) -> Trace:
    """Explain what `balance` answers now. `own` is the job as its user wrote it, `seen.job` as its pool lets it be."""
    weighed = weigh(seen, rates, now)
    picture = weighed.picture
    if picture is None:
        return Trace(weighed.plan, Allocation(), (), ())
    current = picture.active.spec.allocation.after
    found = tuple(inputs(seen, rates, picture.observed, now))
    asked = tuple(orders(weighed, picture, rates))
    model, throughput = picture.estimated.model, picture.observed.throughput
    if model is None:
        return Trace(weighed.plan, current, found, asked, remedies=_first(asked))
    wanted, limits = limited(picture, model, own.spec)
    tried = tuple(_tried(picture, model, throughput)) if throughput is not None else ()
    return Trace(
        weighed.plan,
        current,
        found,
        asked,
        wanted,
        model.throughput(wanted),
        limits,
        tried,
        (*_first(asked), *_remedies(picture, model, own.spec, limits, tried)),
        model,
    )


# What comes before any weighing

RULES: Mapping[str, tuple[str, str]] = {
    "Suspended": ("spec.suspend is false", "spec.suspend: false"),
    "RolledBack": ("no revision has to be taken back", "nothing: it is taken back now"),
    "Pinned": ("spec.scaling.pin is not set", "spec.scaling.pin: null"),
    "Bounds": ("the allocation is within spec and pool", "nothing: it is put right now"),
    "Held": ("no revision of a user is held", "the end of the hold; `steelyard resume` ends it now"),
    "Fixed": ("spec.scaling.mode is not Fixed", "spec.scaling.mode: Dynamic"),
    "OpenMove": ("the last move has its verdict", "its verdict: only then can the next effect be told apart"),
    "MetricsUnavailable": ("Prometheus answers", "a Prometheus that answers the operator"),
    "MetricsIncomplete": ("every ready pod has fresh metrics", "fresh metrics of the pods that are named"),
    "NoEvidence": ("enough steps were measured", "time: more training steps under this allocation"),
}
"""Rule -> what it asks for, and what would satisfy it."""


def orders(weighed: Weighed, picture: Picture, rates: Rates) -> Iterator[Judged]:
    """Each rule in the order of the balance; the first that objects, or directs, has decided."""
    yield _rule("Suspended", decide.suspended(picture))
    if refused := decide.refused(picture):
        yield _rule("RolledBack", refused)
        return
    for kind, order in decide.ORDERS.items():
        yield _rule(kind, order(picture))
    judgement = weighed.judgement
    if judgement and judgement.roll_back:
        yield _rule("RolledBack", decide.roll_back(picture, judgement.progress))
    elif picture.active.status.verdict is Verdict.ROLLED_BACK:
        yield _rule("RolledBack", decide.roll_back(picture, picture.active.status.evidence or "it was judged harmful"))
    elif judgement:
        name = picture.active.metadata.name
        yield _rule("OpenMove", decide.hold("OpenMove", f"no change because {name} is open: {judgement.progress}"))
    else:
        yield _rule("OpenMove", None)
    lacking = decide.unmeasured(picture, rates)
    for kind in ("MetricsUnavailable", "MetricsIncomplete", "NoEvidence"):
        yield _rule(kind, lacking if lacking and lacking.decision.kind == kind else None)


def _rule(kind: str, outcome: decide.Outcome | None) -> Judged:
    needed, remedy = RULES[kind]
    if outcome is None:
        return Judged(kind, True, "", needed)
    return Judged(kind, False, "", needed, outcome.decision.reason, remedy)


def _first(rules: tuple[Judged, ...]) -> tuple[str, ...]:
    return tuple(f"{rule.kind}: {rule.remedy}" for rule in rules if not rule.passed)[:1]


# What is wanted, and what limits it


def limited(picture: Picture, model: Model, own: AgenticRLJobSpec) -> tuple[Allocation, tuple[Limit, ...]]:
    """The best split of the job's own GPUs, then what each limiter makes of it, one added to the others."""
    current = picture.active.spec.allocation.after
    wanted = target = _best(picture, model, own, _anything(), quota=False) or current
    limits = []
    for kind, spec, bounds, quota in _stages(picture, own):
        best = _best(picture, model, spec, bounds, quota=quota)
        after = current if best is None else best
        words = _words(kind, spec, bounds, target, after) if after != target else ("", "")
        limits.append(Limit(kind, target, after, model.throughput(after), *words))
        target = after
    return wanted, tuple(limits)


def _stages(picture: Picture, own: AgenticRLJobSpec) -> Iterator[tuple[str, AgenticRLJobSpec, Bounds, bool]]:
    """Limiter, spec, bounds and whether quotas count, each with all that came before."""
    seen, current = picture.seen, picture.active.spec.allocation.after
    spec = seen.job.spec
    if spec.budget.gpus != own.budget.gpus:
        yield "Pool", spec, _anything(), False
    bounds = spec_bounds(spec)
    yield "Replicas", spec, bounds, False
    if seen.quota:
        yield "Quota", spec, bounds, True
    for kind, limiter in LIMITERS:
        bounds = limiter(seen, current, picture.now, bounds)
        yield kind, spec, bounds, True


def _anything() -> Bounds:
    return {stage: StageBounds(1, MOST_REPLICAS) for stage in Stage}


def _best(picture: Picture, model: Model, spec: AgenticRLJobSpec, bounds: Bounds, *, quota: bool) -> Allocation | None:
    """None when nothing fits, or nothing is better than what is there."""
    current = picture.active.spec.allocation.after
    found = better_split(model, spec, current, bounds, picture.seen.quota if quota else {})
    return found.after if isinstance(found, Candidate) else None


def _words(kind: str, spec: AgenticRLJobSpec, bounds: Bounds, before: Allocation, after: Allocation) -> tuple[str, str]:
    """What a limiter says of the stages whose target it changed, and what would change that."""
    moved = [stage for stage in Stage if dict(before[stage]) != dict(after[stage])]
    outside = [stage for stage in moved if not bounds[stage].low <= before.replicas(stage) <= bounds[stage].high]
    named = [stage for stage in Stage if bounds[stage].frozen or bounds[stage].limited] or outside or moved
    allowed = ", ".join(f"{stage.field} {bounds[stage].low} to {bounds[stage].high}" for stage in named)
    reasons = "; ".join(filter(None, (bounds[stage].frozen or bounds[stage].limited for stage in named)))
    said = {
        "Pool": f"the pool grants {float(spec.budget.gpus):g} GPUs",
        "Quota": "the namespace's quota",
        "Replicas": f"the spec allows {allowed}",
        "Growth": f"a stage at most doubles or halves in one move: {allowed}",
    }
    bound = " and ".join(
        f"{replicas(stage, 'max')} above {bounds[stage].high}"
        if before.replicas(stage) > bounds[stage].high
        else f"{replicas(stage, 'min')} below {bounds[stage].low}"
        for stage in outside
    )
    remedies = {
        "Pool": "more GPUs from the pool",
        "Quota": "a larger quota",
        "Replicas": bound or "other bounds in spec.stages",
        "Growth": "time: the next move goes on from there",
        "Ownership": "to delete the autoscaler",
    }
    return said.get(kind, reasons), remedies.get(kind, "time, as long as it says")


def replicas(stage: Stage, bound: str) -> str:
    """The field that bounds a stage."""
    return f"spec.stages.{stage.field}.replicas.{bound}"


# What was tried


def _tried(picture: Picture, model: Model, throughput: float) -> Iterator[Tried]:
    seen, current = picture.seen, picture.active.spec.allocation.after
    bounds = stage_bounds(seen, current, picture.now)
    known: list[Allocation] = []
    for propose in decide.PROPOSALS:
        candidate = propose(model, seen.job.spec, current, bounds, seen.quota)
        if isinstance(candidate, Candidate) and candidate.after not in known:
            known.append(candidate.after)
            yield tried(picture, candidate, model, throughput)


def tried(picture: Picture, candidate: Candidate, model: Model, throughput: float) -> Tried:
    """What every gate says of a candidate."""
    case = decide.case_of(picture, candidate, model, throughput)
    return Tried(candidate, tuple(gate(case) for gate in GATES))


# What would change it


def _remedies(
    picture: Picture, model: Model, own: AgenticRLJobSpec, limits: tuple[Limit, ...], found: tuple[Tried, ...]
) -> Iterator[str]:
    spec, current = picture.seen.job.spec, picture.active.spec.allocation.after
    split = better_split(model, spec, current, stage_bounds(picture.seen, current, picture.now), picture.seen.quota)
    if isinstance(split, Infeasible):
        yield f"Infeasible: a larger budget, or smaller minima: {split.constraint}"
    mode = spec.scaling.mode
    if mode == "Observe" and any(one.passed for one in found):
        yield "Observe: spec.scaling.mode: Dynamic makes the recommended move"
    for one in found:
        for gate in one.gates:
            if not gate.passed:
                yield f"{gate.kind}: {gate.remedy}"
    now = model.throughput(current)
    best = model.throughput(limits[0].before) if limits else now
    for limit in limits:
        lost = (best - limit.throughput) / now if now > 0 else 0.0
        if limit.binds and lost >= WORTH_SAYING:
            yield f"{limit.kind}: {limit.remedy}, for up to {percent(lost)} more ({limit.reason})"
        best = limit.throughput
    if own.scaling.objective == "Throughput":
        yield from _more_gpus(picture, model)


def _more_gpus(picture: Picture, model: Model) -> Iterator[str]:
    """What the next GPU would bring, within the spec's own bounds."""
    spec, current = picture.seen.job.spec, picture.active.spec.allocation.after
    prices = [price for profiles in spec.gpu_prices.values() for price in profiles.values() if price > 0]
    if not prices:
        return
    more = spec.model_copy(update={"budget": spec.budget.model_copy(update={"gpus": spec.budget.gpus + max(prices)})})
    richer = _best(picture, model, more, spec_bounds(spec), quota=True)
    now = model.throughput(_best(picture, model, spec, spec_bounds(spec), quota=True) or current)
    if richer is None or now <= 0 or (gain := model.throughput(richer) / now - 1) < WORTH_SAYING:
        return
    added, move = number(float(max(prices))), changes(current, richer)
    yield f"Budget: {added} more in spec.budget.gpus, for up to {percent(gain)} more ({move})"
