"""What the balance itself says of short windows of the span: bottleneck, symptoms, the most that could be gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.api import AgenticRLJob, AgenticRLJobSpec, Allocation, AllocationRevision, Stage
from steelyard.balance import diagnosis
from steelyard.balance.allocate import Infeasible
from steelyard.balance.bounds import StageBounds, spec_bounds
from steelyard.balance.decide import Picture
from steelyard.balance.diagnose import bottleneck, symptoms, wait_graph
from steelyard.balance.estimate import estimate
from steelyard.balance.ledger import completed, known, successor
from steelyard.balance.model import Model
from steelyard.balance.observe import observe
from steelyard.balance.propose import better_split, more_slots
from steelyard.balance.surroundings import surroundings
from steelyard.balance.types import Advice, Bottleneck, Finding, Instant, Seen, Symptom
from steelyard.balance.words import instant
from steelyard.twin.recording import Window, counted

SCALED = (Stage.SAMPLER, Stage.ENVIRONMENT, Stage.REWARD_SERVER)
"""Stages whose bounds may be recommended; the trainer has one rank."""
MOST_REPLICAS = 1000
"""What the API admits."""
WIDER = 4
"""Bounds are lifted to so many times the spec's before the best split is asked for; the budget stays."""


@dataclass(frozen=True)
class Glance:
    """One window, looked at as the operator would have."""

    at: Instant
    throughput: float | None
    bottleneck: Bottleneck | None
    findings: tuple[Finding, ...]
    advice: Advice | None
    most_gain: float | None
    """The most that any allocation within the spec could gain: 0.1 is ten per cent. None while that is unknown."""
    best: Allocation | None
    """The best split of the budget, the spec's min and max put aside."""
    best_gain: float | None
    """What it would gain."""
    unknown: tuple[str, ...]
    """Why something above is not known."""


def glance(job: AgenticRLJob, revisions: Sequence[AllocationRevision], window: Window) -> Glance:
    """The balance's own view of `window`."""
    ledger = completed([one for one in revisions if (instant(one.status.applied_time) or 0.0) < window.end])
    seen = Seen(job, ledger, counted(window.pods))
    observed = observe(seen, window.rates, window.end, window.start, whole=True)
    estimated = estimate(observed, job.spec, known(ledger))
    graph = wait_graph(observed)
    found = symptoms(observed, graph, surroundings(window.rates, window.end), job.spec)
    active = successor(seen, window.allocation, "in force in this window")
    picture = Picture(seen, active, observed, estimated, window.end, graph, found)
    findings, advice = diagnosis(picture)
    best = _best(estimated.model, job.spec, window.allocation) if not observed.missing else None
    return Glance(
        window.end,
        observed.throughput,
        bottleneck(graph, picture.promise),
        findings,
        advice,
        picture.most_gain,
        best[0] if best else None,
        best[1] if best else None,
        (*estimated.unknown, *observed.missing),
    )


def _best(model: Model | None, spec: AgenticRLJobSpec, current: Allocation) -> tuple[Allocation, float] | None:
    """The best split and its gain."""
    if model is None:
        return None
    bounds = {
        stage: StageBounds(1, WIDER * bound.high) if stage in SCALED else bound
        for stage, bound in spec_bounds(spec).items()
    }
    found = (propose(model, spec, current, bounds) for propose in (better_split, more_slots))
    moves = [one for one in found if one is not None and not isinstance(one, Infeasible) and one.gain > 0]
    best = max(moves, key=lambda one: one.gain, default=None)
    return (best.after, best.gain) if best else (current, 0.0)


@dataclass(frozen=True)
class Layer:
    """One layer of the diagnosis, the lowest first: what is wrong below distorts all above."""

    name: str
    words: str
    findings: tuple[tuple[Finding, int], ...]
    """The newest finding of each symptom and stage, and the number of windows that show it."""
    unknown: str = ""
    """What could not be looked at here."""


LAYERS = (
    ("machines", "replicas, memory and storage below the pipeline",
     (Symptom.SICK_REPLICA, Symptom.DISK_WAITS, Symptom.MEMORY_FULL)),
    ("trajectories", "stragglers, weights and steps: they come back under any allocation",
     (Symptom.LONG_TAIL, Symptom.WEIGHT_SYNC, Symptom.UNSTEADY_STEPS)),
    ("stages", "one stage too slow for the others",
     (Symptom.REWARD_QUEUE, Symptom.TRAINER_SLOW, Symptom.ROLLOUT_SLOW)),
    ("learning", "nothing left to move: reward, data, algorithm", (Symptom.NO_MISMATCH,)),
)  # fmt: skip


def layers(glances: Sequence[Glance]) -> tuple[Layer, ...]:
    """All findings by layer, the most frequent first."""
    seen: Counter[tuple[Symptom, Stage | None]] = Counter()
    newest: dict[tuple[Symptom, Stage | None], Finding] = {}
    for one in glances:
        for found in one.findings:
            key = found.symptom, found.stage
            seen[key] += 1
            newest[key] = found
    unknown = "; ".join(dict.fromkeys(words for one in glances for words in one.unknown))
    return tuple(
        Layer(
            name,
            words,
            tuple((newest[key], count) for key, count in seen.most_common() if key[0] in among),
            unknown if name != "machines" and not any(one.findings for one in glances) else "",
        )
        for name, words, among in LAYERS
    )


def usual_bottleneck(glances: Sequence[Glance]) -> tuple[Bottleneck, int] | None:
    """The stage that held most windows back, with its newest evidence and in how many it did."""
    named = [one.bottleneck for one in glances if one.bottleneck is not None]
    if not named:
        return None
    stage, count = Counter(one.stage for one in reversed(named)).most_common(1)[0]
    return next(one for one in reversed(named) if one.stage is stage), count


@dataclass(frozen=True)
class Bounds:
    """Replicas that a stage should be allowed to have."""

    stage: Stage
    low: int
    high: int
    now_low: int
    now_high: int
    why: str

    @property
    def changed(self) -> bool:
        return (self.low, self.high) != (self.now_low, self.now_high)


def recommended(spec: AgenticRLJobSpec, glances: Sequence[Glance]) -> tuple[Bounds, ...]:
    """Bounds that hold the best splits of every window; none when no window had a model.

    A minimum is only ever lowered, so that a stage may become as small as it should; a maximum is raised, with room for
    a quarter more, where a best split touches it.
    """
    best = [one.best for one in glances if one.best is not None]
    found = []
    for stage in SCALED if best else ():
        used = [allocation.replicas(stage) for allocation in best]
        now = spec.stage(stage).replicas
        least, most = min(used), max(used)
        high = now.max if most < now.max else min(most + max(1, round(most / 4)), MOST_REPLICAS)
        why = f"the best splits of {len(best)} windows have {least}{f' to {most}' if most > least else ''}"
        found.append(Bounds(stage, min(least, now.min), high, now.min, now.max, why))
    return tuple(found)
