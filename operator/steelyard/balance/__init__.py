"""The balance: one tick's cluster and metrics in, one plan out. Pure: values in, values out, `now` is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.api import AllocationRevision, AllocationRevisionStatus, Origin, RevisionPhase, Verdict
from steelyard.balance import decide
from steelyard.balance.decide import Outcome, Picture
from steelyard.balance.diagnose import advise, bottleneck, no_mismatch, stage_estimates
from steelyard.balance.ledger import completed, is_open
from steelyard.balance.observe import SCRAPES, STEPS, longest_window
from steelyard.balance.types import Advice, Decision, Fact, Finding, Instant, Plan, Rates, Remedy, Seen, Symptom
from steelyard.balance.verdict import Judgement, judge
from steelyard.balance.words import instant, sentence

__all__ = ["Plan", "Rates", "Seen", "Weighed", "balance", "diagnosis", "weigh"]

LEAST_WINDOW_SECONDS = 60.0
WINDOW_MARGIN = 1.5


@dataclass(frozen=True)
class Weighed:
    """A plan, and what it was made from as far as that was looked at."""

    plan: Plan
    picture: Picture | None = None
    judgement: Judgement | None = None


def balance(seen: Seen, rates: Rates, now: Instant) -> Plan:
    """Judge the open move, then decide the next one. Every answer has a reason, also "no change because ..."."""
    return weigh(seen, rates, now).plan


def weigh(seen: Seen, rates: Rates, now: Instant) -> Weighed:
    """The same, with what `trace` explains it by."""
    seen = replace(seen, revisions=completed(seen.revisions))
    active = seen.active
    if active is None:
        return Weighed(_plan(seen, decide.first(seen)))
    picture = decide.look(seen, active, rates, now)
    if outcome := decide.suspended(picture) or decide.refused(picture):
        return Weighed(_plan(seen, outcome, picture, None, rates), picture)
    judgement = judge(active, seen, rates, now, picture.inputs) if is_open(active) else None
    plan = _plan(seen, _decide(picture, judgement, rates), picture, judgement, rates)
    return Weighed(plan, picture, judgement)


def _decide(picture: Picture, judgement: Judgement | None, rates: Rates) -> Outcome:
    active = picture.active
    directed = decide.directed(picture)
    if directed and (directed.revision or judgement is None):
        return directed
    if judgement and judgement.roll_back:
        return decide.roll_back(picture, judgement.progress)
    if directed and judgement:
        return decide.hold(directed.decision.kind, f"{directed.decision.reason}; {judgement.progress}")
    if active.status.verdict is Verdict.ROLLED_BACK:  # the operator died before it recorded the way back
        return decide.roll_back(picture, active.status.evidence or "it was judged harmful")
    if judgement and rates.unavailable is None:
        return decide.hold("OpenMove", f"no change because {active.metadata.name} is open: {judgement.progress}")
    unmeasured = decide.unmeasured(picture, rates)
    model, throughput = picture.estimated.model, picture.observed.throughput
    if unmeasured or model is None or throughput is None:
        return unmeasured or decide.hold("NoEvidence", "no change because nothing was measured yet")
    return decide.improve(picture, model, throughput)


def _plan(
    seen: Seen,
    outcome: Outcome,
    picture: Picture | None = None,
    judgement: Judgement | None = None,
    rates: Rates | None = None,
) -> Plan:
    decision = Decision(outcome.decision.action, outcome.decision.kind, sentence(outcome.decision.reason))
    wake = float(seen.job.spec.scaling.interval_seconds)
    if picture is None or rates is None:
        return Plan(decision, active=outcome.revision, revision=outcome.revision, wake=wake)
    findings, advice = diagnosis(picture, judging=judgement is not None)
    return Plan(
        decision,
        active=outcome.revision or picture.active,
        revision=outcome.revision,
        updates=_updates(seen, picture.active, judgement, outcome.revision),
        metrics=_metrics(picture, rates),
        balanced=_balanced(decision, findings, advice),
        throughput=picture.observed.throughput,
        bottleneck=bottleneck(picture.waits, picture.promise),
        findings=findings,
        advice=advice,
        stages=stage_estimates(picture.observed, picture.waits, picture.promise),
        model=picture.estimated.model,
        wake=wake,
        window_seconds=_window_seconds(picture, rates),
    )


def diagnosis(picture: Picture, *, judging: bool = False) -> tuple[tuple[Finding, ...], Advice | None]:
    """What is wrong and what to do about it; without a symptom and without a gain in sight, that nothing is.

    What could be gained is not asked while a move is judged: its verdict is the next thing to know.
    """
    least_gain = max(picture.seen.job.spec.scaling.min_gain_percent, 1) / 100
    most_gain = None if judging else picture.most_gain
    advice = advise(picture.findings, most_gain, least_gain)
    if picture.findings or most_gain is None or most_gain >= least_gain:
        return picture.findings, advice
    return (no_mismatch(picture.waits, most_gain),), advice


def _balanced(decision: Decision, findings: tuple[Finding, ...], advice: Advice | None) -> Fact:
    """Nothing to gain by moving replicas is balance only where nothing else is broken."""
    if decision.kind not in ("Balanced", "DeadBand"):
        return Fact(False, decision.kind, decision.reason)
    if advice and advice.remedy is Remedy.FIX_FIRST:
        return Fact(False, advice.remedy, advice.reason)
    honest = findings and findings[0].symptom is Symptom.NO_MISMATCH
    return Fact(True, decision.kind, findings[0].evidence if honest else decision.reason)


def _updates(
    seen: Seen, active: AllocationRevision, judgement: Judgement | None, new: AllocationRevision | None
) -> Mapping[str, AllocationRevisionStatus]:
    """Statuses that change: the judged revision, and every revision that another one has replaced."""
    statuses = {revision.metadata.name: revision.status for revision in seen.revisions}
    current = dict(statuses)
    if active.status.phase is RevisionPhase.SUPERSEDED:  # its successor was never recorded
        current[active.metadata.name] = active.status.model_copy(update={"phase": RevisionPhase.JUDGED})
    if judgement:
        current[active.metadata.name] = judgement.status
    newest = new or active
    for revision in seen.revisions:
        name = revision.metadata.name
        if revision.spec.number <= newest.spec.number and name != newest.metadata.name:
            taken_back = newest.spec.origin is Origin.ROLLBACK and newest.spec.parent == name
            current[name] = _superseded(current[name], newest, taken_back=taken_back)
    return {name: status for name, status in current.items() if status != statuses[name]}


def _superseded(
    status: AllocationRevisionStatus, newest: AllocationRevision, *, taken_back: bool
) -> AllocationRevisionStatus:
    update: dict[str, object] = {"phase": RevisionPhase.SUPERSEDED}
    if taken_back and status.verdict is None:  # refused, or the operator died between rollback and verdict
        update |= {"verdict": Verdict.ROLLED_BACK, "evidence": newest.spec.reason}
    elif status.phase is RevisionPhase.PENDING:
        update["evidence"] = f"never applied: {newest.metadata.name} took its place"
    return status.model_copy(update=update)


def _metrics(picture: Picture, rates: Rates) -> Fact:
    if rates.unavailable:
        return Fact(False, rates.unavailable.problem, rates.unavailable.message)
    if picture.observed.missing:
        return Fact(False, "Partial", "; ".join(picture.observed.missing))
    if not any(window.pods for window in picture.observed.stages.values()):
        return Fact(False, "NoData", "no stage has ready pods with metrics")
    return Fact(True, "Complete", "every ready pod has fresh metrics")


def _window_seconds(picture: Picture, rates: Rates) -> float:
    """How far back the next read must reach: the window, and an open move from its start, when the next tick comes."""
    window = picture.observed.window
    wanted = max(LEAST_WINDOW_SECONDS, WINDOW_MARGIN * SCRAPES * window.scrape_seconds)
    if window.step_seconds is None and any(stage.pods for stage in picture.observed.stages.values()):
        wanted = max(wanted, 2 * rates.window_seconds)
    elif window.step_seconds is not None:
        wanted = max(wanted, WINDOW_MARGIN * (STEPS + 1) * window.step_seconds)
    applied = instant(picture.active.status.applied_time)
    if applied is not None and is_open(picture.active):
        until_then = picture.seen.job.spec.scaling.interval_seconds
        wanted = max(wanted, picture.now + until_then - applied + WINDOW_MARGIN * window.scrape_seconds)
    return min(wanted, longest_window(window.scrape_seconds))
