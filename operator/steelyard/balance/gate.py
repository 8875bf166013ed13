"""Vetoing gates: each judges the whole plan and gives its figures, and its reason when it objects. No gate edits one.

Their order is that of the reasons a reader should meet first: is there anything to gain (`dead_band`), could replicas
cure what ails the pipeline (`fix_first`), do we trust ourselves at present (`losing_streak`), was just this tried
(`barred`), is it sure enough (`uncertain`), and is it worth its price (`payback`). What a stage may become at all was
decided before, for the allocator (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard.api import AgenticRLJobSpec, Allocation, AllocationRevision
from steelyard.balance.diagnose import objection
from steelyard.balance.draws import Draws
from steelyard.balance.lessons import (
    TransitionCost,
    barred_until,
    failures_in_a_row,
    failures_of,
    last_good,
    moved,
    transition_cost,
)
from steelyard.balance.model import Model
from steelyard.balance.propose import Candidate
from steelyard.balance.types import Finding, Instant
from steelyard.balance.words import number, percent, seconds

QUANTILE = 0.10
P90 = 1.2816
"""Standard deviations from the median to the 90th percentile."""
FAILURES_THAT_HOLD = 2


@dataclass(frozen=True, slots=True)
class Judged:
    """What one rule says of a plan, with its figures, whether it objects or not."""

    kind: str
    """CamelCase name of the rule, as `Decision.kind`."""
    passed: bool
    figure: str
    """What was found."""
    needed: str
    """What it would have to be."""
    reason: str = ""
    """Why it objects, in a sentence."""
    remedy: str = ""
    """What would change that."""


@dataclass(frozen=True)
class Case:
    """A candidate with all that is needed to judge it."""

    candidate: Candidate
    model: Model
    spec: AgenticRLJobSpec
    revisions: Sequence[AllocationRevision]
    throughput: float
    """Measured trajectories per second."""
    step: int | None
    """Training steps done, if known."""
    now: Instant
    findings: Sequence[Finding] = ()
    """What the figures show to be wrong."""
    throughput_error: float = 0.0
    """Relative standard error of `throughput`."""

    @property
    def cost(self) -> TransitionCost:
        return transition_cost(self.revisions, self.candidate.before, self.candidate.after)

    @property
    def saved_share(self) -> float:
        """Share of the GPUs in use that the move would free."""
        used = float(self.candidate.before.gpus(self.spec.gpu_prices))
        return float(self.candidate.gpus_saved) / used if used > 0 else 0.0

    @property
    def saves(self) -> bool:
        """Judged by the GPUs it frees instead of the throughput it adds."""
        return (
            self.spec.scaling.objective == "Efficiency"
            and self.saved_share > 0
            and self.saved_share >= self.spec.scaling.min_gain_percent / 100
        )


def veto(case: Case) -> Judged | None:
    """The first gate that objects, None when the move may be made."""
    return next((judged for gate in GATES if not (judged := gate(case)).passed), None)


def dead_band(case: Case) -> Judged:
    least, gain = case.spec.scaling.min_gain_percent, case.candidate.gain
    if case.saves:
        figure = f"{gain * 100:+.0f} % of throughput, {percent(case.saved_share)} of the GPUs freed"
        return Judged("DeadBand", True, figure, f"{least} % of the GPUs freed (minGainPercent)")
    return _judged(
        "DeadBand",
        gain >= max(least / 100, 1e-6),
        f"{gain * 100:+.0f} % of throughput",
        f"at least {least} % (spec.scaling.minGainPercent)",
        f"no change because the best move would gain {percent(gain)} of {number(case.throughput)} trajectories/s, "
        f"less than minGainPercent {least}",
        _lower_gain(gain),
    )


def fix_first(case: Case) -> Judged:
    found = objection(case.findings, case.candidate.before, case.candidate.after)
    return _judged(
        "FixFirst",
        found is None,
        found.symptom if found else "no symptom that replicas cannot cure",
        "none",
        f"no change because replicas are no cure: {found.evidence}; see {found.look_first}" if found else "",
        f"first see to {found.look_first}" if found else "",
    )


def losing_streak(case: Case) -> Judged:
    failed = failures_in_a_row(case.revisions)
    left = _time_left(failed[: len(failed) - FAILURES_THAT_HOLD + 1], case)
    good = last_good(case.revisions)
    return _judged(
        "LosingStreak",
        len(failed) < FAILURES_THAT_HOLD or left <= 0,
        f"{len(failed)} moves in a row were rolled back",
        f"fewer than {FAILURES_THAT_HOLD}, or enough time since",
        f"no change because the last {len(failed)} moves were all rolled back; the last good allocation"
        f"{f' ({good.metadata.name})' if good else ''} is held for {seconds(left)} more",
        f"time: {seconds(left)}",
    )


def barred(case: Case) -> Judged:
    failed = failures_of(case.revisions, case.candidate.before, case.candidate.after)
    left = _time_left(failed, case)
    if left <= 0:
        return Judged("Barred", True, f"{len(failed)} failures of the same move", "none of late")
    stages = ", ".join(sorted(moved(failed[0].spec.allocation.before, failed[0].spec.allocation.after)))
    times = f"{len(failed)} failure{'s' if len(failed) > 1 else ''}"
    return Judged(
        "Barred",
        False,
        f"{times} of the same move",
        "none of late",
        f"no change because {failed[0].metadata.name} gave {stages} the same replicas and was rolled back; "
        f"barred for {seconds(left)} more after {times}",
        f"time: {seconds(left)}, or another move",
    )


def uncertain(case: Case) -> Judged:
    least = case.spec.scaling.min_gain_percent
    if case.saves:
        return Judged("Uncertain", True, "it frees GPUs", "not asked of a move that frees GPUs")
    reached = case.throughput * exp(-P90 * case.throughput_error)
    sure = sure_gain(case.model, case.candidate.before, case.candidate.after, reached)
    return _judged(
        "Uncertain",
        sure >= least / 100,
        f"with 90 % confidence above {percent(sure)}",
        f"above {least} % (spec.scaling.minGainPercent)",
        f"no change yet because the expected gain of {percent(case.candidate.gain)} is too uncertain: "
        f"with 90 % confidence it is only above {percent(sure)}, and minGainPercent is {least}",
        f"more steps measured under this allocation, which narrow the estimate; {_lower_gain(sure)}",
    )


def payback(case: Case) -> Judged:
    if case.saves:
        return Judged("Payback", True, "it frees GPUs", "not asked of a move that frees GPUs")
    horizon, left = float(case.spec.scaling.horizon_seconds), None
    if case.step is not None and case.throughput > 0:
        left = max(case.spec.algorithm.steps - case.step, 0) * case.spec.algorithm.batch / case.throughput
    counted = min(horizon, horizon if left is None else left)
    earned, cost = case.candidate.gain * counted, case.cost
    spread = f" (error {seconds(cost.error)})" if cost.error > 0 else ""
    price = cost.seconds + cost.error
    return _judged(
        "Payback",
        earned > price,
        f"earns {seconds(earned)} in the {seconds(counted)} that count",
        f"more than the {seconds(cost.seconds)}{spread} of throughput that it costs",
        f"no change because the move costs {seconds(cost.seconds)} of throughput{spread} and would earn only "
        f"{seconds(earned)} in the {seconds(counted)} that count",
        _longer(price, case.candidate.gain, limited=counted < horizon),
    )


GATES: tuple[Callable[[Case], Judged], ...] = (dead_band, fix_first, losing_streak, barred, uncertain, payback)


def _judged(kind: str, passed: bool, figure: str, needed: str, reason: str, remedy: str) -> Judged:
    return Judged(kind, True, figure, needed) if passed else Judged(kind, False, figure, needed, reason, remedy)


def _lower_gain(gain: float) -> str:
    """To ask for less, where there is less to ask for."""
    if gain * 100 < 1:
        return "a move that gains more"
    return f"spec.scaling.minGainPercent at most {int(gain * 100)}, or a move that gains more"


def _longer(price: float, gain: float, *, limited: bool) -> str:
    """How long a gain must last to pay; `limited` by what is left of the training."""
    if gain <= 0:
        return "a move that gains more"
    if limited:
        return f"{seconds(price / gain)} of training left to earn it in"
    return f"spec.scaling.horizonSeconds above {seconds(price / gain)}"


def _time_left(failed: Sequence[AllocationRevision], case: Case) -> float:
    return barred_until(failed, case.spec.scaling.horizon_seconds) - case.now


def sure_gain(model: Model, before: Allocation, after: Allocation, reached: float = 0.0) -> float:
    """The 10th percentile of T_new/T_old - 1 over joint draws of the estimates.

    T_old is never less than what the allocation before has `reached`: a model that says so is wrong about the stage
    that binds it, and the move would cure nothing.
    """
    draws = Draws(model)
    old, new = np.maximum(draws.throughput(before), reached), draws.throughput(after)
    gains = np.divide(new, old, out=np.ones_like(old), where=old > 0) - 1
    return float(np.sort(gains)[int(QUANTILE * len(gains))])
