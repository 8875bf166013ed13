"""An audit in the terminal: the verdict, the three questions and the figures behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.audit.drawings import STATE_WORDS
from steelyard.audit.report import Audit, questions, verdict
from steelyard.audit.settings import yaml_of
from steelyard.balance.words import number, percent

MOST_ROWS = 5


def text(of: Audit) -> str:
    """A screenful; the page has the rest."""
    return "\n".join(_lines(of)) + "\n"


def _lines(of: Audit) -> Iterator[str]:
    yield verdict(of)
    for one in questions(of):
        yield ""
        yield one.question
        yield from (f"  {sentence}" for sentence in (one.answer, one.more) if sentence)
    parts = [(part.name, part) for part in of.way if part.seconds is not None]
    if parts:
        yield ""
        rows = [
            (name, number(part.seconds), *(_known(v) for v in (part.spread.p50, part.spread.p95, part.spread.p99)))
            for name, part in parts
        ]
        yield from _table(("A TRAJECTORY", "MEAN S", "P50", "P95", "P99"), rows)
    if of.time is not None and of.time.causes():
        yield ""
        causes = of.time.causes()[:MOST_ROWS]
        yield from _table(
            ("WITHOUT WORK", "STAGE", "GPU-HOURS", "OF ALL", "COST"),
            [
                (STATE_WORDS[state], stage, number(hours), percent(hours / of.time.held), _known(of.cost(hours)))
                for stage, state, hours in causes
            ],
        )
    if of.moves:
        yield ""
        yield from _table(
            ("REVISION", "CHANGE", "BEFORE", "AFTER", "VERDICT"),
            [(one.name, one.what, _known(one.before), _known(one.after), one.verdict) for one in of.moves],
        )
    if patch := yaml_of(of.bounds):
        yield ""
        yield "Recommended bounds:"
        yield from patch.splitlines()


def _known(value: float | None) -> str:
    return "-" if value is None else number(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
