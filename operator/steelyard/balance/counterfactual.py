"""What the allocation before would reach now: the old capacities under the new workload, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot, log, sqrt

from steelyard.api import AgenticRLJobSpec, Allocation, AllocationRevision, Stage
from steelyard.balance.demand import explained_by_length, interval_error
from steelyard.balance.estimate import estimate
from steelyard.balance.ledger import model_of, throughput_error_of, throughput_of
from steelyard.balance.model import Estimate, Model, Workload
from steelyard.balance.observe import Observed

LEAST_ERROR = 0.02
UNKNOWN_SPREAD = 0.5
"""Coefficient of variation of the step intervals where too few were seen to tell."""
DRIFT_ERROR = 0.2
"""A correction for drift is trusted to a fifth of its own size; where none is possible, to so much in all."""


@dataclass(frozen=True)
class Counterfactual:
    """Throughput that the old allocation would reach now, and its relative standard error."""

    throughput: float
    error: float = 0.0


def counterfactual(revision: AllocationRevision, spec: AgenticRLJobSpec, observed: Observed) -> Counterfactual | None:
    """before* = X_before · T(old allocation, capacities before, workload now) / T(same, workload before).

    Drift is then not mistaken for harm, and harm done by the move is not hidden in the capacities. A window of a few
    steps knows the workload to some tenth only, so a drift that is no larger than that error is corrected by a part of
    itself: d²/(d² + error²), with d = log of the ratio. What remains of the error, what was measured before, and what
    the model did not explain then make up how sure the result is. None when nothing was measured before.
    """
    then, measured = model_of(revision.spec.inputs), throughput_of(revision.spec.inputs)
    if measured <= 0:
        return None
    error = throughput_error_of(revision.spec.inputs)
    unknown = Counterfactual(measured, hypot(error, DRIFT_ERROR))
    now = estimate(observed, spec).model
    if then is None or now is None:
        return unknown
    old = revision.spec.allocation.before
    promised = then.promise(old).throughput
    changed = drifted(then, now, revision.spec.allocation.after).promise(old).throughput
    blurred = replace(then, workload=_slowed(then.workload, now.workload.error)).promise(old).throughput
    if min(promised, changed, blurred) <= 0:
        return unknown
    drift, blur = log(changed / promised), log(blurred / promised)
    believed = drift**2 / (drift**2 + blur**2) if drift else 0.0
    misfit = abs(log(measured / promised)) * min(abs(drift), 1.0)
    error = hypot(error, DRIFT_ERROR * drift, misfit, sqrt(believed) * blur)
    return Counterfactual(measured * exp(believed * drift), error)


def throughput_error(observed: Observed) -> float:
    """Relative standard error of the measured throughput, from the spread of the step intervals."""
    ends = observed.window.step_ends
    intervals = [(after - before, steps) for (before, _), (after, steps) in pairwise(ends)]
    if len(intervals) < 2:
        return UNKNOWN_SPREAD / sqrt(max(observed.window.steps, 1))
    return max(interval_error(intervals, observed.window.scrape_seconds), LEAST_ERROR)


def drifted(then: Model, now: Model, after: Allocation) -> Model:
    """The model of then under the workload of now.

    Visits, lengths and tool times are those of now; waits for samplers are the allocation's doing: per token they stay.
    A sampler has room for as many sequences as it has now. What took a judge or the trainer longer counts as drift as
    far as trajectories got longer, and shorter likewise; the rest is the move's doing.
    """
    longer = now.workload.tokens / then.workload.tokens if then.workload.tokens > 0 else 1.0
    workload = replace(
        then.workload,
        tokens=now.workload.tokens,
        outside_seconds=now.workload.outside_seconds,
        waiting_seconds=then.workload.waiting_seconds * longer,
        visits=now.workload.visits,
    )
    rates = {stage: dict(profiles) for stage, profiles in then.capacities.rates.items()}
    latency = dict(then.capacities.latency)
    for profile, one in latency.items():
        if profile in now.capacities.latency:
            latency[profile] = replace(one, most=now.capacities.latency[profile].most)
            rates[Stage.SAMPLER][profile] = Estimate(latency[profile].capacity, one.error)
    for stage in (Stage.REWARD_SERVER, Stage.TRAINER):
        faster = _faster(then, now, stage, after[stage], longer)
        rates[stage] = {profile: Estimate(one.value * faster, one.error) for profile, one in rates[stage].items()}
    return replace(then, workload=workload, capacities=replace(then.capacities, rates=rates, latency=latency))


def _faster(then: Model, now: Model, stage: Stage, counts: Mapping[str, int], longer: float) -> float:
    """By how much a trajectory takes the same replicas less time now, as far as its length may explain it."""
    units = [
        sum(model.capacities.rates.get(stage, {})[profile].value * n for profile, n in counts.items())
        if all(model.knows(stage, profile) for profile in counts)
        else 0.0
        for model in (then, now)
    ]
    return explained_by_length(units[1] / units[0], longer) if min(units) > 0 else 1.0


def _slowed(workload: Workload, error: float) -> Workload:
    """The workload as much heavier as two windows with these errors may disagree by chance."""
    factor = 1 + hypot(workload.error, error)
    return replace(
        workload,
        tokens=workload.tokens * factor,
        outside_seconds=workload.outside_seconds * factor,
        waiting_seconds=workload.waiting_seconds * factor,
        overhead_seconds=workload.overhead_seconds * factor,
    )
