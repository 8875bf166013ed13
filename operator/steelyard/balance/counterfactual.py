"""What the allocation before would reach now: the old capacities under the new workload, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot, log, sqrt

from steelyard.api import AgenticRLJobSpec, AllocationRevision
from steelyard.balance.estimate import estimate
from steelyard.balance.ledger import model_of, throughput_of
from steelyard.balance.model import Model, Workload
from steelyard.balance.observe import Observed

LEAST_ERROR = 0.02
DRIFT_ERROR = 0.2
"""A correction for drift is trusted to a fifth of its own size; where none is possible, to so much in all."""


@dataclass(frozen=True)
class Counterfactual:
    """Throughput that the old allocation would reach now, and its relative standard error."""

    throughput: float
    error: float = 0.0


def counterfactual(revision: AllocationRevision, spec: AgenticRLJobSpec, observed: Observed) -> Counterfactual | None:
    """before* = X_before · T(old allocation, capacities before, workload now) / T(same, workload before).

    Drift is then not mistaken for harm, and harm done by the move is not hidden in the capacities. The further the
    workload drifted, the more it rests on the model, and the less sure it is: all the less where the model did not
    explain the throughput before the move either. None when nothing was measured before.
    """
    then = model_of(revision.spec.inputs)
    measured = throughput_of(revision.spec.inputs)
    if measured <= 0:
        return None
    if then is None:
        return Counterfactual(measured, DRIFT_ERROR)
    old = revision.spec.allocation.before
    promised = then.promise(old).throughput
    now = estimate(observed, spec).model
    if now is None or promised <= 0:
        return Counterfactual(measured, DRIFT_ERROR)
    drifted = replace(then, workload=_drifted(then, now.workload)).promise(old).throughput
    if drifted <= 0:
        return Counterfactual(measured, DRIFT_ERROR)
    drift, misfit = abs(log(drifted / promised)), abs(log(measured / promised))
    return Counterfactual(measured * drifted / promised, hypot(DRIFT_ERROR * drift, misfit * min(drift, 1.0)))


def throughput_error(observed: Observed) -> float:
    """Relative standard error of the measured throughput, from the spread of the step intervals."""
    ends = observed.window.step_ends
    gaps = [(later[0] - earlier[0]) / later[1] for earlier, later in pairwise(ends) if later[1] > 0]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    if len(gaps) < 2 or mean <= 0:
        return LEAST_ERROR
    variance = sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)
    return max(sqrt(variance / len(gaps)) / mean, LEAST_ERROR)


def _drifted(then: Model, now: Workload) -> Workload:
    """Visits, lengths and tool times of now; waits for samplers are the allocation's doing: per token they stay."""
    longer = now.tokens / then.workload.tokens if then.workload.tokens > 0 else 1.0
    return replace(
        then.workload,
        tokens=now.tokens,
        outside_seconds=now.outside_seconds,
        waiting_seconds=then.workload.waiting_seconds * longer,
        visits=now.visits,
    )
