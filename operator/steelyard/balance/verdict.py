"""What became of the open revision: applied, settled, measured, judged against what the old allocation would do now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, hypot

from steelyard.api import (
    AllocationRevision,
    AllocationRevisionStatus,
    Measured,
    Origin,
    RevisionPhase,
    Stage,
    Verdict,
)
from steelyard.balance.bounds import user_hold
from steelyard.balance.counterfactual import Counterfactual, counterfactual, throughput_error
from steelyard.balance.demand import EDGE_ERROR
from steelyard.balance.ledger import is_trial, throughput_of
from steelyard.balance.observe import Observed, observe
from steelyard.balance.outage import Outage, last_outage
from steelyard.balance.readiness import READY_SECONDS, lacking, patience_seconds
from steelyard.balance.types import Instant, Rates, Seen
from steelyard.balance.words import decimal, instant, moment, number, percent, seconds, sentence

STALLED_STEPS = 10.0
"""No step end for so many times the expected interval is a stall."""
LEAST_STALL_SECONDS = 300.0
MORE_WINDOWS = 3
"""An unclear result is measured so many windows longer before it is final."""
HARMFUL = "harmful"
SHARPER = 2.0
"""More windows are measured unless what is compared with is known so many times worse than what is measured: then four
of them would sharpen the comparison by less than a tenth."""
CLEARLY = 1.645
"""Standard errors below which a loss is clear."""


@dataclass(frozen=True)
class Judgement:
    """The open revision's new status, and whether its move must be taken back."""

    status: AllocationRevisionStatus
    progress: str
    """Where it stands, for the reason why nothing else moves."""
    roll_back: bool = False


def judge(
    revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant, inputs: Mapping[str, str] | None = None
) -> Judgement:
    """One step of the open revision: Pending, Applying, Settling, measuring, Judged.

    `inputs` is what is measured now; a revision that a user wrote is judged against what it was when it was applied.
    """
    status = revision.status
    if status.phase is RevisionPhase.PENDING:
        written = dict(inputs or {}) if revision.spec.origin is Origin.USER else {}
        update = {"phase": RevisionPhase.APPLYING, "applied_time": moment(now), "inputs": written}
        return Judgement(status.model_copy(update=update), "it is being applied")
    if status.phase is RevisionPhase.APPLYING:
        return _applying(revision, seen, now)
    if status.measuring_time is None:
        return _settling(revision, seen, rates, now)
    return _measuring(revision, seen, rates, now)


def spared(revision: AllocationRevision, seen: Seen, now: Instant) -> str | None:
    """Why this revision stays whatever it does, None when harm is taken back."""
    scaling = seen.job.spec.scaling
    if revision.spec.origin is Origin.ROLLBACK:
        return "a rollback is never taken back"
    if not is_trial(revision):
        return "the job's spec asked for it"
    if scaling.pin is not None:
        return "spec.scaling.pin decides"
    if scaling.mode != "Dynamic" and revision.spec.origin is Origin.OPERATOR:
        return f"mode {scaling.mode} takes nothing back"
    return user_hold(revision, now)


def _applying(revision: AllocationRevision, seen: Seen, now: Instant) -> Judgement:
    found = lacking(revision, seen)
    if not found and revision.spec.allocation.after == revision.spec.allocation.before:
        return _judged(revision, None, "it moved nothing, so there is nothing to judge", None, None, now)
    if not found:
        update = {"phase": RevisionPhase.SETTLING, "settling_time": moment(now)}
        return Judgement(revision.status.model_copy(update=update), "the pipeline is settling")
    waited = now - (instant(revision.status.applied_time) or now)
    waiting_for = "; ".join(one.words for one in found)
    if waited > patience_seconds(found, revision, seen) and spared(revision, seen, now) is None:
        return _failed(revision, f"not ready {seconds(waited)} after it was applied: {waiting_for}", now)
    if any(one.gated for one in found):
        return Judgement(revision.status, f"a queue holds its pods back for {seconds(waited)}: {waiting_for}")
    return Judgement(revision.status, f"its replicas are starting for {seconds(waited)}: {waiting_for}")


def _settling(revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant) -> Judgement:
    """Settled when the minimum has passed and what was open at the move is trained, as far back as samples are kept:
    where much is open and little trained, they end before it is."""
    since = instant(revision.status.settling_time) or now
    waited = now - since
    applied = instant(revision.status.applied_time) or since
    observed = observe(seen, rates, now, applied, whole=True)
    open_then = _open_at(observed, since) if revision.spec.parent else 0.0
    trained = observed.trained.increase(since, now)
    passed = bool(observed.trained.times) and waited >= seen.job.spec.scaling.evaluation.settle_seconds
    if passed and (trained >= open_then or _forgotten(since, observed)):
        cost = _cost(revision, seen, observed, applied, now) if now - applied <= rates.window_seconds else None
        update = {"measuring_time": moment(now), "measured": cost}
        return Judgement(revision.status.model_copy(update=update), "it is being measured")
    outage = _not_of_its_making(revision, seen, rates, since, now)
    undisturbed = outage.over if outage else since
    if _stalled(revision, seen, observed, now, undisturbed) and spared(revision, seen, now) is None:
        return _failed(revision, f"no step ended in the {seconds(waited)} since its replicas were ready", now)
    return Judgement(
        revision.status,
        f"the pipeline is settling for {seconds(waited)}, {number(trained)} of the {number(open_then)} trajectories "
        "open at the move are trained",
    )


def _cost(
    revision: AllocationRevision, seen: Seen, observed: Observed, applied: Instant, now: Instant
) -> Measured | None:
    """Transition cost: the integral of (1 - X/X_old) dt from applied to settled, in seconds of the old throughput.

    X_old is what the allocation before would reach with the workload of that time: drift costs, but not the move. How
    well that is known, and the step that each end of the time cuts, make up the error.
    """
    old = counterfactual(revision, seen.job.spec, observed)
    if old is None:
        return None
    reached = observed.trained.increase(applied, now) / old.throughput
    error = hypot(reached * old.error, EDGE_ERROR * seen.job.spec.algorithm.batch / old.throughput)
    lost = max(now - applied - reached, 0.0)
    return Measured(transition_cost_seconds=decimal(lost), transition_cost_error_seconds=decimal(error))


def _measuring(revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant) -> Judgement:
    since = instant(revision.status.measuring_time) or now
    spec = seen.job.spec
    observed = observe(seen, rates, now, since, whole=True)  # as far back as samples are kept
    if observed.missing:
        return Judgement(revision.status, f"no verdict on missing data: {'; '.join(observed.missing)}")
    outage = _not_of_its_making(revision, seen, rates, since, now)
    if outage:
        since = outage.over
        observed = observe(seen, rates, now, since, whole=True)
    wanted = spec.scaling.evaluation.steps * (revision.status.windows + 1)
    after = observed.throughput
    full = _forgotten(since, observed)
    if after is None or (observed.window.steps < wanted and not full):
        if _stalled(revision, seen, observed, now, since) and spared(revision, seen, now) is None:
            return _failed(revision, f"the trainer stalled: no step ended in the last {seconds(now - since)}", now)
        when = f" since the outage of the {outage.part}" if outage else ""
        return Judgement(revision.status, f"{observed.window.steps} of {wanted} steps are measured{when}")
    last = full or revision.status.windows >= MORE_WINDOWS or not is_trial(revision)
    return _conclude(revision, seen, observed, after, now, last=last)


def _not_of_its_making(
    revision: AllocationRevision, seen: Seen, rates: Rates, since: Instant, now: Instant
) -> Outage | None:
    """The last outage of what the move did not touch. One that comes again and again may be its doing after all."""
    touched = {stage.value for stage, _ in revision.spec.allocation.before.diff(revision.spec.allocation.after)}
    return last_outage(seen, rates, since, now, touched) if now - since <= READY_SECONDS else None


@dataclass(frozen=True)
class Comparison:
    """What is reached against what the allocation before would reach now."""

    before: float
    after: float
    error: float
    """Relative standard error of after/before."""
    improvable: bool
    """Whether measuring longer would make that error much smaller."""
    least: float
    """after/before from which the move is worth keeping."""
    floor: float
    """after/before below which it did harm."""

    @property
    def helped(self) -> bool:
        return self.after / self.before >= self.least

    @property
    def harmed(self) -> bool:
        """Clearly: also if chance was against it. The error is one of a ratio: half is as far off as twice."""
        return self.after < self.floor * self.before * exp(-CLEARLY * self.error)


def _compared(
    revision: AllocationRevision, seen: Seen, observed: Observed, old: Counterfactual, after: float
) -> Comparison:
    scaling, prices = seen.job.spec.scaling, seen.job.spec.gpu_prices
    move = revision.spec.allocation
    measured = throughput_error(observed)
    error, improvable = hypot(measured, old.error), old.error <= SHARPER * measured
    if move.after.gpus(prices) < move.before.gpus(prices):
        least = 1 - scaling.tolerance_percent / 100
        return Comparison(old.throughput, after, error, improvable, least, floor=least)
    return Comparison(old.throughput, after, error, improvable, 1 + scaling.min_gain_percent / 200, floor=1.0)


def _conclude(
    revision: AllocationRevision, seen: Seen, observed: Observed, after: float, now: Instant, *, last: bool
) -> Judgement:
    old = counterfactual(revision, seen.job.spec, observed)
    steps = observed.window.steps
    if old is None:
        evidence = f"{number(after)} trajectories/s over {steps} steps; nothing to compare with"
        return _judged(revision, None, evidence, None, after, now)
    found = _compared(revision, seen, observed, old, after)
    evidence = (
        f"{number(after)} trajectories/s over {steps} steps, {percent(after / found.before)} of the "
        f"{number(found.before)} that the allocation before would reach now (error {percent(found.error)})"
    )
    if found.helped:
        return _judged(revision, Verdict.KEPT, evidence, found.before, after, now)
    if found.harmed:
        return _harmful(revision, seen, evidence, found, now)
    if last or not found.improvable:
        return _judged(revision, Verdict.INCONCLUSIVE, evidence, found.before, after, now)
    update = {"windows": revision.status.windows + 1, "evidence": sentence(evidence)}
    return Judgement(revision.status.model_copy(update=update), f"not conclusive yet: {evidence}")


def _harmful(revision: AllocationRevision, seen: Seen, evidence: str, found: Comparison, now: Instant) -> Judgement:
    """Taken back; or told, where it must stay. A user's hold stays open, so that it is decided when it ends."""
    why = spared(revision, seen, now)
    if why is None:
        status = _judged(revision, Verdict.ROLLED_BACK, evidence, found.before, found.after, now)
        return replace(status, roll_back=True)
    told = f"{HARMFUL}: {evidence}; it stays because {why}"
    if user_hold(revision, now) is None:
        return _judged(revision, Verdict.INCONCLUSIVE, told, found.before, found.after, now)
    said = revision.status.evidence or ""
    update = {} if said.startswith(HARMFUL) else {"evidence": sentence(f"{HARMFUL}: {evidence}")}  # written once
    return Judgement(revision.status.model_copy(update=update), f"{HARMFUL} so far: {evidence}")


def _judged(
    revision: AllocationRevision,
    verdict: Verdict | None,
    evidence: str,
    before: float | None,
    after: float | None,
    now: Instant,
) -> Judgement:
    measured = (revision.status.measured or Measured()).model_copy(
        update={
            "throughput_before": decimal(before) if before is not None else None,
            "throughput_after": decimal(after) if after is not None else None,
        }
    )
    update = {
        "phase": RevisionPhase.JUDGED,
        "verdict": verdict,
        "evidence": sentence(evidence),
        "measured": measured,
        "judged_time": moment(now),
    }
    return Judgement(revision.status.model_copy(update=update), f"judged: {evidence}")


def _failed(revision: AllocationRevision, evidence: str, now: Instant) -> Judgement:
    update = {
        "phase": RevisionPhase.JUDGED,
        "verdict": Verdict.ROLLED_BACK,
        "evidence": sentence(evidence),
        "judged_time": moment(now),
    }
    return Judgement(revision.status.model_copy(update=update), evidence, roll_back=True)


def _open_at(observed: Observed, since: Instant) -> float:
    """Trajectories in the environment and in the buffers behind it at that instant, as far as that is known."""
    environment = observed.stages[Stage.ENVIRONMENT].pods
    inflight = sum(pod.inflight.near(since) or 0.0 for pod in environment)
    waiting = sum(observed.backlogs[stage].near(since) or 0.0 for stage in (Stage.REWARD_SERVER, Stage.TRAINER))
    return inflight + waiting


def _forgotten(since: Instant, observed: Observed) -> bool:
    """Whether that instant lies before all samples that it makes sense to read."""
    return observed.window.full and since < observed.window.since


def _stalled(revision: AllocationRevision, seen: Seen, observed: Observed, now: Instant, since: Instant) -> bool:
    """No step end for many times as long as two batches should take at the throughput before the move."""
    if observed.missing or not observed.stages[Stage.TRAINER].pods:
        return False  # without data nothing is known, not even a stall
    throughput = throughput_of(revision.spec.inputs)
    last = max([since, *(at for at, _ in observed.window.step_ends)])
    usual = STALLED_STEPS * 2 * seen.job.spec.algorithm.batch / throughput if throughput > 0 else 0.0
    return now - last > max(LEAST_STALL_SECONDS, usual)
