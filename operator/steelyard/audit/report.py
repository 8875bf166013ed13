"""One record -> one audit: all figures, the three questions and the line above them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from steelyard.api import Stage
from steelyard.audit.glance import Bounds, Glance, Layer, glance, layers, recommended, usual_bottleneck
from steelyard.audit.gputime import GpuTime, gpu_time, measured, prices_of
from steelyard.audit.moves import Move, Static, moves, versus_static
from steelyard.audit.record import Record
from steelyard.audit.trajectory import Part, Tool, tools, way
from steelyard.audit.waits import Wait, biggest, edges, graph, held_back
from steelyard.balance.diagnose.waits import WaitGraph
from steelyard.balance.types import Advice, Finding, Remedy
from steelyard.balance.words import number, percent

MORE = 0.01
"""A difference of gains worth a sentence."""
NOTICEABLE_HOURS = 0.005
"""GPU-hours below which nothing was saved or lost."""


@dataclass(frozen=True)
class Answer:
    """One of the three questions, answered in a sentence or two."""

    question: str
    answer: str
    more: str


@dataclass(frozen=True)
class Audit:
    """Everything that a report says. Figures that were not measured are None."""

    record: Record
    price: float | None
    """Of one GPU-hour, in whatever currency it was given."""
    time: GpuTime | None
    """None when the GPUs of a replica are not known."""
    waits: WaitGraph
    edges: tuple[Wait, ...]
    way: tuple[Part, ...]
    tools: tuple[Tool, ...]
    glances: tuple[Glance, ...]
    layers: tuple[Layer, ...]
    moves: tuple[Move, ...]
    static: Static | None
    bounds: tuple[Bounds, ...]

    @property
    def biggest(self) -> Wait | None:
        return biggest(self.edges)

    @cached_property
    def bottleneck(self) -> tuple[Stage, str] | None:
        """The stage that holds the pipeline back and why: by the model of most windows, else by the waits alone."""
        usual = usual_bottleneck(self.glances)
        if usual is None:
            return held_back(self.waits)
        found, count = usual
        among = sum(one.bottleneck is not None for one in self.glances)
        return found.stage, f"in {count} of {among} windows; {found.evidence}"

    @property
    def first(self) -> Finding | None:
        """What to look at first: the lowest layer's finding that most windows show, else the one seen most often."""
        found = [one for layer in self.layers for one in layer.findings]
        usual = [one for one in found if 2 * one[1] >= len(self.glances)]
        return next(iter(usual or sorted(found, key=lambda one: -one[1])), (None, 0))[0]

    @property
    def advice(self) -> Advice | None:
        """The newest."""
        return next((one.advice for one in reversed(self.glances) if one.advice is not None), None)

    @property
    def most_gain(self) -> float | None:
        """The upper bound, from the newest window that had a model."""
        return next((one.most_gain for one in reversed(self.glances) if one.most_gain is not None), None)

    @property
    def wider_gain(self) -> float | None:
        """The same with the recommended bounds instead of the spec's."""
        return next((one.best_gain for one in reversed(self.glances) if one.best_gain is not None), None)

    @property
    def gain_hours(self) -> float | None:
        """GPU-hours that the work of the span would take less at the upper bound."""
        if self.time is None or self.most_gain is None:
            return None
        return self.time.held * self.most_gain / (1 + self.most_gain)

    @property
    def trained(self) -> float | None:
        return self.record.total("units", stage="trainer", outcome="ok")

    @property
    def throughput(self) -> float | None:
        """Trajectories trained per second of the time in which the job was seen to run."""
        seconds = sum(end - start for start, end in measured(self.record))
        return self.trained / seconds if self.trained is not None and seconds > 0 else None

    def cost(self, hours: float | None) -> float | None:
        return None if hours is None or self.price is None else hours * self.price


def audit(record: Record, price: float | None = None) -> Audit:
    """Everything that follows from the record; `price` of a GPU-hour, None when nobody gave one."""
    prices = prices_of(record)
    time = gpu_time(record, prices) if prices is not None else None
    if time is not None and time.held <= 0:
        time = None
    waits = graph(record)
    job = record.job
    glances = tuple(glance(job, record.revisions, window) for window in record.windows) if job is not None else ()
    return Audit(
        record,
        price,
        time,
        waits,
        edges(waits, time),
        way(record),
        tools(record),
        glances,
        layers(glances),
        moves(record.revisions, record.start, record.end),
        versus_static(record.revisions, measured(record), prices) if prices is not None else None,
        recommended(job.spec, glances) if job is not None else (),
    )


def verdict(of: Audit) -> str:
    """The line above all."""
    parts = [_held_back(of), _worked(of), _saved(of)]
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}." if said else "Nothing was measured in this time."


def _held_back(of: Audit) -> str:
    if of.bottleneck is not None:
        return f"the {of.bottleneck[0]} holds this pipeline back"
    known = any(waits.shares for waits in of.waits.values())
    return "no stage holds the others back" if known else ""


def _worked(of: Audit) -> str:
    if of.time is None or of.time.busy_share is None:
        return ""
    return f"{percent(of.time.busy_share)} of its {number(of.time.held, 3)} GPU-hours were work"


def _saved(of: Audit) -> str:
    static = of.static
    if static is None or of.time is None:
        return ""
    if not static.moves:
        return "no move was made"
    if static.seconds <= 0 or (static.unknown_seconds and abs(static.saved) < NOTICEABLE_HOURS):
        return "its moves are not judged yet"
    if abs(static.saved) < NOTICEABLE_HOURS:
        return "its moves neither saved nor lost GPU-hours"
    did = "saved" if static.saved > 0 else "lost"
    share = abs(static.saved) / static.static_gpu_hours
    return f"moves {did} {number(abs(static.saved))} GPU-hours ({percent(share)}) against never moving"


def questions(of: Audit) -> tuple[Answer, Answer, Answer]:
    """Where the time goes, what holds the pipeline back, and whether moving GPUs is worth it."""
    return _where(of), _what(of), _worth(of)


def _where(of: Audit) -> Answer:
    question = "Where does the time go?"
    wait = of.biggest
    if wait is None:
        return Answer(question, "Not known: no state of any slot was measured.", "")
    cost = f", {number(wait.gpu_hours)} GPU-hours" if wait.gpu_hours else ""
    answer = f"The biggest wait: {wait.waiter} {wait.words}, {percent(wait.share)} of its slots' time{cost}."
    if of.time is None:
        return Answer(question, answer, "GPU-hours are not known: nothing says how many GPUs a replica has.")
    busy, waiting, idle = (of.time.of(which) for which in ("busy", "waiting", "idle"))
    price = of.cost(of.time.wasted)
    more = (
        f"Of {number(of.time.held, 3)} GPU-hours {number(busy, 3)} were work, {number(waiting, 3)} waited for others "
        f"and {number(idle, 3)} were idle{f'; what did no work cost {number(price, 3)}' if price is not None else ''}."
    )
    return Answer(question, answer, more)


def _what(of: Audit) -> Answer:
    question = "What holds it back?"
    look = f"Look first at {of.first.look_first}." if of.first else ""
    if of.bottleneck is None:
        known = any(waits.shares for waits in of.waits.values())
        told = "No stage: nobody waits for one of them more than for the others." if known else "Not known."
        return Answer(question, told, look)
    stage, evidence = of.bottleneck
    return Answer(question, f"The {stage}: {evidence}.", look)


def _worth(of: Audit) -> Answer:
    question = "Is moving GPUs worth it?"
    if of.advice is None:
        why = "; ".join(dict.fromkeys(word for one in of.glances for word in one.unknown))
        return Answer(question, f"Not known{f': {why}' if why else ''}.", "")
    worth = {
        Remedy.REALLOCATE: "Yes",
        Remedy.FIX_FIRST: "Not before something else is fixed",
        Remedy.NO_REALLOCATION: "No",
    }[of.advice.remedy]
    return Answer(question, f"{worth}. {of.advice.reason[:1].upper()}{of.advice.reason[1:]}.", _bound(of))


def _bound(of: Audit) -> str:
    """The upper bound in GPU-hours, and what lies beyond the spec's own bounds."""
    if of.most_gain is None:
        return ""
    said = []
    if of.most_gain >= MORE:
        hours, cost = of.gain_hours, of.cost(of.gain_hours)
        bound = f"The upper bound is {percent(of.most_gain)} more throughput"
        bound += f": {number(hours)} GPU-hours for the work of this time" if hours is not None else ""
        said.append(f"{bound}, {number(cost)} at the given price." if cost is not None else f"{bound}.")
    if of.wider_gain is not None and of.wider_gain > of.most_gain + MORE:
        said.append(f"With other bounds on the replicas up to {percent(of.wider_gain)} could be gained.")
    return " ".join(said)
