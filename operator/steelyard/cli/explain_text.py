"""Pure: an explanation as people read it, from what was measured to what would change the decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from steelyard.api import Allocation, Stage
from steelyard.balance.gate import Judged
from steelyard.balance.inputs import Input
from steelyard.balance.trace import Trace, Tried
from steelyard.balance.words import changes, number, percent
from steelyard.cli.ages import age, clock, duration
from steelyard.cli.explain_now import Explained
from steelyard.cli.explain_past import Past
from steelyard.cli.output import Cell, Column, Tinted, Tone, paint, table

INPUTS = ("STAGE", "FIGURE", "VALUE", "UNIT", "AGE", "PODS", "QUERY")


def of_now(found: Explained, only: Stage | None = None) -> list[str]:
    """The decision of this moment; `only`: what concerns one stage."""
    job, trace = found.job.metadata, found.trace
    revision = f", revision {found.active.metadata.name}" if found.active else ""
    lines = [f"Job {job.namespace}/{job.name}, mode {found.job.spec.scaling.mode}{revision}, {clock(found.at)}"]
    lines += _decision(found)
    if trace:
        where = f"window {number(found.window_seconds, 3)} s, Prometheus {found.place}"
        lines += _titled(f"INPUTS ({where})", _inputs(trace.inputs, only))
        lines += _titled("RULES THAT COME FIRST", rules_lines(trace.orders))
        lines += _titled("TARGET, AND WHAT LIMITS IT", _target(trace, only))
        for one in trace.tried:
            lines += _titled(f"GATES FOR {_move(one)}", rules_lines(one.gates))
    elif found.active:
        spec = found.active.spec
        lines += _titled(f"WHY {found.active.metadata.name} (--revision {spec.number} has its inputs)", [spec.reason])
    lines += _titled("FINDINGS", (f"{one.symptom}: {one.evidence}; first: {one.look_first}" for one in found.findings))
    if trace and trace.inputs:
        remedies = trace.remedies or ("nothing that these rules know: look at the findings, reward, data, algorithm",)
        lines += _titled("WHAT WOULD CHANGE IT", (f"{place}. {one}" for place, one in enumerate(remedies, 1)))
    return lines


def _decision(found: Explained) -> Iterator[str]:
    operator, again = found.operator, found.asked_again
    yield ""
    if operator is None:
        yield "DECISION: none yet: the operator has not looked at the job"
    else:
        since = age(operator.time, found.at)
        yield f"DECISION: {paint(f'{operator.action} ({operator.kind})', Tone.STRONG)} by the operator, {since} ago"
        yield f"  {operator.reason}"
    if again and found.agrees:
        yield "  Asked again now with what you may read, the rules say the same."
    elif again:
        yield f"  Asked again now with what you may read, the rules say {again.action} ({again.kind}):"
        yield f"  {again.reason}"


def of_past(past: Past) -> list[str]:
    """One entry of the ledger."""
    spec, job = past.revision.spec, past.job.metadata
    made = past.revision.metadata.creation_timestamp
    when = f", {clock(made)}" if made else ""
    lines = [f"Job {job.namespace}/{job.name}, revision {past.revision.metadata.name} by {spec.origin}{when}"]
    parent = f" (from {spec.parent})" if spec.parent else ""
    lines += ["", f"DECISION: {paint(changes(spec.allocation.before, spec.allocation.after), Tone.STRONG)}{parent}"]
    lines.append(f"  {spec.reason}")
    if spec.predicted:
        lines.append(
            f"  predicted: {spec.predicted.gain_percent:+d} % for {spec.predicted.cost_seconds} s of throughput"
        )
    if past.tried:
        lines += _titled("GATES (figures of then, spec of now)", rules_lines(past.tried.gates))
    if spec.inputs:
        rows = [[name, value] for name, value in sorted(spec.inputs.items())]
        lines += _titled("INPUTS", table((Column("FIGURE"), Column("VALUE")), rows))
    lines += _titled("OUTCOME", _outcome(past))
    return lines


def _outcome(past: Past) -> Iterator[str]:
    status = past.revision.status
    yield f"{status.phase}{f', {status.verdict}' if status.verdict else ''}"
    if status.evidence:
        yield status.evidence
    measured = status.measured
    if measured and measured.transition_cost_seconds is not None:
        yield f"the change cost {measured.transition_cost_seconds} s of throughput"
    stamps = [
        ("applied", status.applied_time), ("ready", status.settling_time), ("measured from", status.measuring_time),
        ("judged", status.judged_time),
    ]  # fmt: skip
    if told := [f"{what} {clock(at)}" for what, at in stamps if at]:
        yield ", ".join(told)


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    """A block with its heading; nothing when it is empty."""
    found = [f"  {line}" for line in lines]
    return ["", title, *found] if found else []


def _inputs(found: Sequence[Input], only: Stage | None) -> list[str]:
    rows: list[list[Cell]] = [
        [
            one.stage.field,
            one.meaning,
            Tinted("no data", Tone.BAD) if one.value is None else _value(one.value, one.unit),
            "" if one.unit == "share" else one.unit,
            "" if one.age_seconds is None else duration(one.age_seconds),
            f"{one.pods}/{one.of}",
            one.query,
        ]
        for one in found
        if only in (None, one.stage)
    ]
    return table([Column(name) for name in INPUTS], rows) if rows else []


def _value(value: float, unit: str) -> str:
    return percent(value) if unit == "share" else number(value, 3)


def rules_lines(rules: Iterable[Judged]) -> list[str]:
    """A line for each rule, and one more for the reason of each that objects."""
    rows: list[list[Cell]] = []
    reasons: dict[int, str] = {}
    judged = list(rules)
    found = any(rule.figure for rule in judged)
    for rule in judged:
        mark = Tinted("ok", Tone.GOOD) if rule.passed else Tinted("NO", Tone.BAD)
        rows.append([mark, rule.kind, *([rule.figure] if found else []), rule.needed])
        if not rule.passed:
            reasons[len(rows) - 1] = rule.reason
    lines = table([Column("")] * (4 if found else 3), rows, wide=False, headers=False)
    return [text for place, line in enumerate(lines) for text in (line, *_reason(reasons.get(place)))]


def _reason(reason: str | None) -> tuple[str, ...]:
    return (f"     {reason}",) if reason else ()


def _target(trace: Trace, only: Stage | None) -> list[str]:
    if trace.wanted is None or trace.model is None:
        return ["unknown: too little was measured for a model of the pipeline"]
    now = trace.model.throughput(trace.current)
    rows = [
        ["now", *_counts(trace.current), number(now, 3), ""],
        [
            "wanted",
            *_counts(trace.wanted),
            number(trace.wanted_throughput, 3),
            "the best use of its GPUs, all else free",
        ],
    ]
    for limit in trace.limits:
        concerns = only is None or dict(limit.before[only]) != dict(limit.after[only])
        if limit.binds and concerns:
            rows.append([limit.kind, *_counts(limit.after), number(limit.throughput, 3), limit.reason])
    idle = ", ".join(limit.kind for limit in trace.limits if not limit.binds)
    columns = [Column("AFTER"), *(Column(stage.field.upper()) for stage in Stage), Column("TRAJ/S"), Column("WHY")]
    return [*table(columns, rows), *([f"without effect: {idle}"] if idle else [])]


def _counts(of: Allocation) -> list[str]:
    return ["+".join(f"{n} {profile}" for profile, n in of[stage].items()) or "0" for stage in Stage]


def _move(one: Tried) -> str:
    return f"{changes(one.candidate.before, one.candidate.after)} ({one.candidate.gain * 100:+.0f} %)"
