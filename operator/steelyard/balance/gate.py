"""Vetoing gates: each judges the whole plan and gives its reason in a sentence with figures. No gate edits a plan.

Their order is that of the reasons a reader should meet first: is there anything to gain (`dead_band`), could replicas
cure what ails the pipeline (`fix_first`), do we trust ourselves at present (`losing_streak`), was just this tried
(`barred`), is it sure enough (`uncertain`), and is it worth its price (`payback`). What a stage may become at all was
decided before, for the allocator (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
FAILURES_THAT_HOLD = 2


@dataclass(frozen=True, slots=True)
class Veto:
    """Why a plan is not carried out."""

    kind: str
    reason: str


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


def veto(case: Case) -> Veto | None:
    """The first gate that objects, None when the move may be made."""
    return next((objected for gate in GATES if (objected := gate(case)) is not None), None)


def dead_band(case: Case) -> Veto | None:
    least = case.spec.scaling.min_gain_percent / 100
    gain = case.candidate.gain
    if case.saves or gain >= max(least, 1e-6):
        return None
    return Veto(
        "DeadBand",
        f"no change because the best move would gain {percent(gain)} of {number(case.throughput)} trajectories/s, "
        f"less than minGainPercent {case.spec.scaling.min_gain_percent}",
    )


def losing_streak(case: Case) -> Veto | None:
    failed = failures_in_a_row(case.revisions)
    left = _time_left(failed[: len(failed) - FAILURES_THAT_HOLD + 1], case)
    if len(failed) < FAILURES_THAT_HOLD or left <= 0:
        return None
    good = last_good(case.revisions)
    return Veto(
        "LosingStreak",
        f"no change because the last {len(failed)} moves were all rolled back; the last good allocation"
        f"{f' ({good.metadata.name})' if good else ''} is held for {seconds(left)} more",
    )


def fix_first(case: Case) -> Veto | None:
    found = objection(case.findings, case.candidate.before, case.candidate.after)
    if found is None:
        return None
    return Veto("FixFirst", f"no change because replicas are no cure: {found.evidence}; see {found.look_first}")


def barred(case: Case) -> Veto | None:
    failed = failures_of(case.revisions, case.candidate.before, case.candidate.after)
    left = _time_left(failed, case)
    if left <= 0:
        return None
    stages = ", ".join(sorted(moved(failed[0].spec.allocation.before, failed[0].spec.allocation.after)))
    return Veto(
        "Barred",
        f"no change because {failed[0].metadata.name} gave {stages} the same replicas and was rolled back; "
        f"barred for {seconds(left)} more after {len(failed)} failure{'s' if len(failed) > 1 else ''}",
    )


def uncertain(case: Case) -> Veto | None:
    if case.saves:
        return None
    least = case.spec.scaling.min_gain_percent / 100
    sure = sure_gain(case.model, case.candidate.before, case.candidate.after)
    if sure >= least:
        return None
    return Veto(
        "Uncertain",
        f"no change yet because the expected gain of {percent(case.candidate.gain)} is too uncertain: "
        f"with 90 % confidence it is only above {percent(sure)}, and minGainPercent is "
        f"{case.spec.scaling.min_gain_percent}",
    )


def payback(case: Case) -> Veto | None:
    if case.saves:
        return None
    horizon = float(case.spec.scaling.horizon_seconds)
    if case.step is not None and case.throughput > 0:
        left = max(case.spec.algorithm.steps - case.step, 0) * case.spec.algorithm.batch
        horizon = min(horizon, left / case.throughput)
    earned, cost = case.candidate.gain * horizon, case.cost
    if earned > cost.seconds + cost.error:
        return None
    spread = f" (error {seconds(cost.error)})" if cost.error > 0 else ""
    return Veto(
        "Payback",
        f"no change because the move costs {seconds(cost.seconds)} of throughput{spread} and would earn only "
        f"{seconds(earned)} in the {seconds(horizon)} that count",
    )


GATES: tuple[Callable[[Case], Veto | None], ...] = (dead_band, fix_first, losing_streak, barred, uncertain, payback)


def _time_left(failed: Sequence[AllocationRevision], case: Case) -> float:
    return barred_until(failed, case.spec.scaling.horizon_seconds) - case.now


def sure_gain(model: Model, before: Allocation, after: Allocation) -> float:
    """The 10th percentile of T_new/T_old - 1 over joint draws of the estimates."""
    draws = Draws(model)
    old, new = draws.throughput(before), draws.throughput(after)
    gains = np.divide(new, old, out=np.ones_like(old), where=old > 0) - 1
    return float(np.sort(gains)[int(QUANTILE * len(gains))])
