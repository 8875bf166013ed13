"""What became of the open revision: applied, settled, measured, judged against what the old allocation would do now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot, log, sqrt

from steelyard.api import (
    AllocationRevision,
    AllocationRevisionStatus,
    Measured,
    RevisionPhase,
    Stage,
    Verdict,
)
from steelyard.balance.estimate import estimate
from steelyard.balance.ledger import is_trial, model_of, throughput_of
from steelyard.balance.model import Model, Workload
from steelyard.balance.observe import Observed, longest_window, observe
from steelyard.balance.types import Instant, Rates, Seen
from steelyard.balance.words import decimal, instant, moment, number, percent, seconds, sentence

READY_SECONDS = 1800.0
"""A move whose replicas are not all ready by then has failed: large models load for many minutes."""
FAILING_SECONDS = 300.0
"""Replicas that cannot start (image, scheduling, crash loop) get so long, plus the drain that may free their GPUs."""
STALLED_STEPS = 10.0
"""No step end for so many times the expected interval is a stall."""
LEAST_STALL_SECONDS = 300.0
MORE_WINDOWS = 3
"""An unclear result is measured so many windows longer before it is final."""
CLEARLY = 1.645
"""Standard errors below which a loss is clear."""
LEAST_ERROR = 0.02
DRIFT_ERROR = 0.2
"""A correction for drift is trusted to a fifth of its own size."""


@dataclass(frozen=True)
class Judgement:
    """The open revision's new status, and whether its move must be taken back."""

    status: AllocationRevisionStatus
    progress: str
    """Where it stands, for the reason why nothing else moves."""
    roll_back: bool = False


def judge(revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant) -> Judgement:
    """One step of the open revision: Pending, Applying, Settling, measuring, Judged."""
    status = revision.status
    if status.phase is RevisionPhase.PENDING:
        update = {"phase": RevisionPhase.APPLYING, "applied_time": moment(now)}
        return Judgement(status.model_copy(update=update), "it is being applied")
    if status.phase is RevisionPhase.APPLYING:
        return _applying(revision, seen, now)
    if status.measuring_time is None:
        return _settling(revision, seen, rates, now)
    return _measuring(revision, seen, rates, now)


def _applying(revision: AllocationRevision, seen: Seen, now: Instant) -> Judgement:
    lacking = [
        f"{stage} {_ready(seen, stage, profile)} of {n} ready{_problems(seen, stage, profile)}"
        for stage, profile, n in _wanted(revision)
        if _ready(seen, stage, profile) < n or _desired(seen, stage, profile) != n
    ]
    if not lacking:
        update = {"phase": RevisionPhase.SETTLING, "settling_time": moment(now)}
        return Judgement(revision.status.model_copy(update=update), "the pipeline is settling")
    waited = now - (instant(revision.status.applied_time) or now)
    failing = any(_problems(seen, stage, profile) for stage, profile, _ in _wanted(revision))
    deadline = min(READY_SECONDS, FAILING_SECONDS + _drain(revision, seen)) if failing else READY_SECONDS
    waiting_for = "; ".join(lacking)
    if waited > deadline and is_trial(revision):
        return _failed(revision, f"not ready {seconds(waited)} after it was applied: {waiting_for}", now)
    return Judgement(revision.status, f"its replicas are starting for {seconds(waited)}: {waiting_for}")


def _settling(revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant) -> Judgement:
    """Settled when the minimum has passed and what was open at the move is trained."""
    since = instant(revision.status.settling_time) or now
    waited = now - since
    applied = instant(revision.status.applied_time) or since
    observed = observe(seen, rates, now, applied, whole=True)
    open_then = _open_at(observed, since) if revision.spec.parent else 0.0
    trained = observed.trained.increase(since, now)
    measured = bool(observed.trained.times)
    if measured and waited >= seen.job.spec.scaling.evaluation.settle_seconds and trained >= open_then:
        update = {"measuring_time": moment(now), "measured": _cost(revision, observed, applied, now)}
        return Judgement(revision.status.model_copy(update=update), "it is being measured")
    if _stalled(revision, observed, now, since, trained + seen.job.spec.algorithm.batch) and is_trial(revision):
        return _failed(revision, f"no step ended in the {seconds(waited)} since its replicas were ready", now)
    return Judgement(
        revision.status,
        f"the pipeline is settling for {seconds(waited)}, {number(trained)} of the {number(open_then)} trajectories "
        "open at the move are trained",
    )


def _cost(revision: AllocationRevision, observed: Observed, applied: Instant, now: Instant) -> Measured | None:
    """Transition cost: the integral of (1 - X/X_old) dt from applied to settled, in seconds of the old throughput."""
    throughput = throughput_of(revision.spec.inputs)
    if throughput <= 0 or not observed.trained.times:
        return None
    lost = (now - applied) - observed.trained.increase(applied, now) / throughput
    return Measured(transition_cost_seconds=decimal(max(lost, 0.0)))


def _measuring(revision: AllocationRevision, seen: Seen, rates: Rates, now: Instant) -> Judgement:
    since = instant(revision.status.measuring_time) or now
    spec = seen.job.spec
    observed = observe(seen, rates, now, since, whole=True)  # as far back as samples are kept
    wanted = spec.scaling.evaluation.steps * (revision.status.windows + 1)
    after = observed.throughput
    full = now - since > rates.window_seconds >= longest_window(observed.window.scrape_seconds)
    if after is None or (observed.window.steps < wanted and not full):
        if _stalled(revision, observed, now, since, 2 * spec.algorithm.batch) and is_trial(revision):
            return _failed(revision, f"the trainer stalled: no step ended in the last {seconds(now - since)}", now)
        return Judgement(revision.status, f"{observed.window.steps} of {wanted} steps are measured")
    return _conclude(revision, seen, observed, after, now, final=full or revision.status.windows >= MORE_WINDOWS)


def _conclude(
    revision: AllocationRevision, seen: Seen, observed: Observed, after: float, now: Instant, *, final: bool
) -> Judgement:
    old = _counterfactual(revision, seen, observed)
    if old is None:
        evidence = f"{number(after)} trajectories/s over {observed.window.steps} steps; nothing to compare with"
        return _judged(revision, None, evidence, None, after, now)
    before = old.throughput
    ratio, error = after / before, hypot(_error(observed), old.error)
    scaling = seen.job.spec.scaling
    prices = seen.job.spec.gpu_prices
    move = revision.spec.allocation
    saves = move.after.gpus(prices) < move.before.gpus(prices)
    least = 1 - scaling.tolerance_percent / 100 if saves else 1 + scaling.min_gain_percent / 200
    floor = least if saves else 1.0
    evidence = (
        f"{number(after)} trajectories/s over {observed.window.steps} steps, {percent(after / before)} of the "
        f"{number(before)} that the allocation before would reach now (error {percent(error)})"
    )
    if ratio >= least:
        return _judged(revision, Verdict.KEPT, evidence, before, after, now)
    if ratio * (1 + CLEARLY * error) < floor and _may_roll_back(revision, seen):
        status = _judged(revision, Verdict.ROLLED_BACK, evidence, before, after, now)
        return replace(status, roll_back=True)
    if not final:
        update = {"windows": revision.status.windows + 1, "evidence": sentence(evidence)}
        return Judgement(revision.status.model_copy(update=update), f"not conclusive yet: {evidence}")
    return _judged(revision, Verdict.INCONCLUSIVE, evidence, before, after, now)


def _may_roll_back(revision: AllocationRevision, seen: Seen) -> bool:
    return is_trial(revision) and seen.job.spec.scaling.mode == "Dynamic"


def _judged(
    revision: AllocationRevision,
    verdict: Verdict | None,
    evidence: str,
    before: float | None,
    after: float,
    now: Instant,
) -> Judgement:
    measured = (revision.status.measured or Measured()).model_copy(
        update={
            "throughput_before": decimal(before) if before is not None else None,
            "throughput_after": decimal(after),
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


@dataclass(frozen=True)
class Counterfactual:
    """Throughput that the old allocation would reach now, and its relative standard error."""

    throughput: float
    error: float = 0.0


def _counterfactual(revision: AllocationRevision, seen: Seen, observed: Observed) -> Counterfactual | None:
    """The old allocation under its capacities from before and under what trajectories ask from now.

    Drift is then not mistaken for harm, and harm done by the move is not hidden in the capacities. The further the
    workload drifted, the more it rests on the model, and the less sure it is: all the less where the model did not
    explain the throughput before the move either.
    """
    then = model_of(revision.spec.inputs)
    measured = throughput_of(revision.spec.inputs)
    if then is None or measured <= 0:
        return None
    old = revision.spec.allocation.before
    promised = then.promise(old).throughput
    now_model = estimate(observed, seen.job.spec).model
    if now_model is None or promised <= 0:
        return Counterfactual(measured)
    drifted = replace(then, workload=_drifted(then, now_model.workload)).promise(old).throughput
    if drifted <= 0:
        return Counterfactual(measured)
    drift, misfit = abs(log(drifted / promised)), abs(log(measured / promised))
    return Counterfactual(measured * drifted / promised, hypot(DRIFT_ERROR * drift, misfit * min(drift, 1.0)))


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


def _error(observed: Observed) -> float:
    """Relative standard error of the measured throughput, from the spread of the step intervals."""
    ends = observed.window.step_ends
    gaps = [(later[0] - earlier[0]) / later[1] for earlier, later in pairwise(ends) if later[1] > 0]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    if len(gaps) < 2 or mean <= 0:
        return LEAST_ERROR
    variance = sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)
    return max(sqrt(variance / len(gaps)) / mean, LEAST_ERROR)


def _open_at(observed: Observed, since: Instant) -> float:
    """Trajectories in the environment and in the buffers behind it at that instant, as far as that is known."""
    environment = observed.stages[Stage.ENVIRONMENT].pods
    inflight = sum(pod.inflight.near(since) or 0.0 for pod in environment)
    waiting = sum(observed.backlogs[stage].near(since) or 0.0 for stage in (Stage.REWARD_SERVER, Stage.TRAINER))
    return inflight + waiting


def _stalled(revision: AllocationRevision, observed: Observed, now: Instant, since: Instant, expected: float) -> bool:
    """No step end for many times as long as `expected` trajectories should take at the throughput before the move."""
    if observed.missing or not observed.stages[Stage.TRAINER].pods:
        return False  # without data nothing is known, not even a stall
    throughput = throughput_of(revision.spec.inputs)
    last = max([since, *(at for at, _ in observed.window.step_ends)])
    usual = STALLED_STEPS * expected / throughput if throughput > 0 else 0.0
    return now - last > max(LEAST_STALL_SECONDS, usual)


def _wanted(revision: AllocationRevision) -> list[tuple[Stage, str, int]]:
    """What must be there: all of it for a first revision, the stages that changed for a move."""
    move = revision.spec.allocation
    changed = {stage for stage, _ in move.before.diff(move.after)}
    return [entry for entry in move.after.entries() if entry[0] in changed]


def _desired(seen: Seen, stage: Stage, profile: str) -> int:
    counts = seen.stages.get(stage, {}).get(profile)
    return counts.desired if counts else 0


def _ready(seen: Seen, stage: Stage, profile: str) -> int:
    counts = seen.stages.get(stage, {}).get(profile)
    return counts.ready if counts else 0


def _problems(seen: Seen, stage: Stage, profile: str) -> str:
    counts = seen.stages.get(stage, {}).get(profile)
    named = sorted({pod.problem for pod in counts.pods if pod.problem and not pod.ready}) if counts else []
    return f" ({', '.join(named)})" if named else ""


def _drain(revision: AllocationRevision, seen: Seen) -> float:
    move: Mapping[tuple[Stage, str], int] = revision.spec.allocation.before.diff(revision.spec.allocation.after)
    return float(max((seen.job.spec.stage(stage).drain_seconds for (stage, _), n in move.items() if n < 0), default=0))
