"""Why a stage does not have the replicas that somebody expects: the rules of the balance, asked about that number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.api import Allocation, Stage
from steelyard.balance import weigh
from steelyard.balance.allocate import Infeasible
from steelyard.balance.bounds import LIMITERS, Bounds, StageBounds, spec_bounds, stage_bounds
from steelyard.balance.decide import Picture
from steelyard.balance.gate import Judged
from steelyard.balance.model import Model
from steelyard.balance.propose import NEARLY, Candidate, better_split, candidate_of
from steelyard.balance.trace import MOST_REPLICAS, orders, replicas, tried
from steelyard.balance.types import Action, Instant, Plan, Rates, Seen
from steelyard.balance.words import number


@dataclass(frozen=True)
class Answer:
    """Every rule that such a move has to pass, in order; rules after the first that objects are asked all the same."""

    plan: Plan
    current: int
    """Replicas that the stage has."""
    rules: tuple[Judged, ...]
    after: Allocation | None = None
    """The best allocation with that number, when there is one."""

    @property
    def objection(self) -> Judged | None:
        return next((rule for rule in self.rules if not rule.passed), None)


def why_not(seen: Seen, rates: Rates, now: Instant, stage: Stage, wanted: int) -> Answer:
    """Ask about `wanted` replicas of `stage`."""
    weighed = weigh(seen, rates, now)
    picture = weighed.picture
    if picture is None:
        first = Judged("Initial", False, "", "the job has started", weighed.plan.decision.reason)
        return Answer(weighed.plan, 0, (first,))
    current = picture.active.spec.allocation.after
    has = current.replicas(stage)
    rules = [*orders(weighed, picture, rates), *_bounds(picture, stage, wanted)]
    model, throughput = picture.estimated.model, picture.observed.throughput
    if model is None or throughput is None or wanted == has:
        return Answer(weighed.plan, has, tuple(rules))
    found = _with(picture, model, stage, wanted)
    rules.append(_fits(picture, found))
    if isinstance(found, Infeasible):
        return Answer(weighed.plan, has, tuple(rules))
    rules.append(_preferred(weighed.plan, picture, model, found))
    rules += tried(picture, found, model, throughput).gates
    return Answer(weighed.plan, has, tuple(rules), found.after)


def _bounds(picture: Picture, stage: Stage, wanted: int) -> Iterator[Judged]:
    """Each limiter alone, so that all that stand in the way are named."""
    seen, current = picture.seen, picture.active.spec.allocation.after
    spec = spec_bounds(seen.job.spec)
    edge = "max" if wanted > spec[stage].high else "min"
    yield _within(
        "Replicas", spec[stage], wanted,
        f"the spec allows {spec[stage].low} to {spec[stage].high} {stage.field} replicas",
        f"{replicas(stage, edge)} at {'least' if edge == 'max' else 'most'} {wanted}",
    )  # fmt: skip
    for kind, limiter in LIMITERS:
        bound = limiter(seen, current, picture.now, _free())[stage]
        reason, remedy = bound.frozen or bound.limited or "", "time, as long as it says"
        if kind == "Growth":
            reason = f"a stage at most doubles or halves in one move: {bound.low} to {bound.high}"
            remedy = f"several moves, first to {bound.high if wanted > bound.high else bound.low}"
        elif kind == "Ownership":
            remedy = "to delete the autoscaler"
        yield _within(kind, bound, wanted, reason, remedy)


def _free() -> Bounds:
    return {stage: StageBounds(0, MOST_REPLICAS) for stage in Stage}


def _within(kind: str, bound: StageBounds, wanted: int, reason: str, remedy: str) -> Judged:
    needed = f"{bound.low} to {bound.high}"
    if bound.low <= wanted <= bound.high:
        return Judged(kind, True, str(wanted), needed)
    return Judged(kind, False, str(wanted), needed, reason, remedy)


def _with(picture: Picture, model: Model, stage: Stage, wanted: int) -> Candidate | Infeasible:
    """The best allocation within the spec that has this number."""
    seen, current = picture.seen, picture.active.spec.allocation.after
    spec = seen.job.spec
    counts = current[stage] or dict.fromkeys(spec.stage(stage).profiles, 0)
    main = max(counts, key=lambda profile: (counts[profile], profile))
    asked = current.replace(stage, {main: wanted})
    if stage is Stage.ENVIRONMENT:
        return candidate_of(model, spec, current, asked)
    bounds = {**spec_bounds(spec), stage: StageBounds(wanted, wanted, frozen="asked for")}
    found = better_split(model, spec, asked, bounds, seen.quota)
    if isinstance(found, Infeasible):
        return found
    return candidate_of(model, spec, current, found.after if found else asked)


def _fits(picture: Picture, found: Candidate | Infeasible) -> Judged:
    spec = picture.seen.job.spec
    needed = f"at most {float(spec.budget.gpus):g} GPUs"
    if isinstance(found, Infeasible):
        remedy = "a larger spec.budget.gpus, or smaller minima of other stages"
        return Judged("Budget", False, "too much", needed, found.constraint, remedy)
    return Judged("Budget", True, f"{float(found.after.gpus(spec.gpu_prices)):g} GPUs", needed)


def _preferred(plan: Plan, picture: Picture, model: Model, found: Candidate) -> Judged:
    """Whether another allocation that may be had now promises more than this one, or than the move that is made."""
    seen, current = picture.seen, picture.active.spec.allocation.after
    best = better_split(model, seen.job.spec, current, stage_bounds(seen, current, picture.now), seen.quota)
    other = best.after if isinstance(best, Candidate) else current
    if plan.decision.action is Action.MOVE and plan.active is not None:
        other = plan.active.spec.allocation.after
    mine, its = found.new.throughput, model.throughput(other)
    figure, needed = f"{number(mine)} trajectories/s", f"at least {number(its)}, what {other} promises"
    if mine >= its * NEARLY:
        return Judged("Best", True, figure, needed)
    reason = f"{other} promises {number(its)} trajectories/s, the best with that number only {number(mine)}"
    return Judged("Best", False, figure, needed, reason, "another bottleneck")
