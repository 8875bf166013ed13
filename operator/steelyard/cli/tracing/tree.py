"""Trajectories as people read them: a tree with a time line, and one row each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.balance.words import number, percent
from steelyard.cli.output import Column, table
from steelyard.cli.tracing.story import Story, Wait
from steelyard_workers.spans import Span

BAR = 32
NAME = 42
COLUMNS = tuple(
    map(Column, ("TRAJECTORY", "SECONDS", "OUTCOME", "REWARD", "STALENESS", "TOKENS", "WAITED", "MOST OF IT"))
)
SHOWN = {"generate": "turn", "tool": "tool", "train": "step"}
"""What tells spans of one kind apart."""


def tree(story: Story, pods: Mapping[str, str]) -> list[str]:
    """The life of a trajectory, top to bottom. `pods` names the pods behind samplers' addresses."""
    lines = [
        f"trajectory {story.id}: {story.outcome}, {_seconds(story.seconds)} since its dispatch{_result(story)}",
        "",
    ]
    steps = list(story.steps)
    for place, step in enumerate(steps):
        last = place == len(steps) - 1
        lines.append(_line(story, step, "└ " if last else "├ ", pods))
        inner = story.children(step) if isinstance(step, Span) else ()
        for inside, child in enumerate(inner):
            lines.append(
                _line(story, child, ("  " if last else "│ ") + ("└ " if inside == len(inner) - 1 else "├ "), pods)
            )
    return [*lines, "", *_balance(story)]


def _result(story: Story) -> str:
    reward, step = story.note("score", "reward"), story.note("train", "step")
    parts = []
    if isinstance(reward, int | float):
        parts.append(f"reward {number(float(reward), 3)}")
    if step is not None:
        parts.append(f"in the batch of step {step}")
    if (staleness := story.note("train", "staleness")) is not None:
        parts.append(f"{staleness} versions behind")
    return "".join(f", {part}" for part in parts)


def _line(story: Story, step: Span | Wait, branch: str, pods: Mapping[str, str]) -> str:
    name = branch + (step.share if isinstance(step, Wait) else _name(step))
    details = "" if isinstance(step, Wait) else _details(step, pods)
    offset, length = step.start - story.start, step.seconds
    return f"{offset:>8.2f} s  {name:<{NAME}} {_seconds(length):>9}  {_bar(story, step)}  {details}".rstrip()


def _name(span: Span) -> str:
    key = SHOWN.get(span.name)
    return f"{span.name} {span.about[key]}" if key and key in span.about else span.name


def _details(span: Span, pods: Mapping[str, str]) -> str:
    about = span.about
    parts = [str(span.pod)] if span.name in ("episode", "score", "train") else []
    if address := about.get("sampler"):
        parts.append(f"{pods.get(str(address).rpartition(':')[0], '')} {address}".strip())
    if (tokens := about.get("tokens")) is not None:
        rate = f", {tokens / span.seconds:.0f}/s" if span.seconds > 0 else ""
        parts.append(f"{tokens} tokens{rate}")
    if policy := about.get("policy_first"):
        last = about.get("policy_last", policy)
        parts.append(f"policy {policy}" if last == policy else f"policy {policy} to {last}")
    parts += [f"{key} {about[key]}" for key in ("outcome", "reward", "staleness", "poison") if key in about]
    if span.failed:
        parts.append("failed")
    if span.name in ("episode", "score", "train") and span.waited > 0:
        parts.append(f"worked {_seconds(span.worked)}, waited {_seconds(span.waited)}")
    return ", ".join(parts)


def _bar(story: Story, step: Span | Wait) -> str:
    """Where in the trajectory's life it lies: solid where it is mostly work, the lighter the more it waits."""
    if story.seconds <= 0:
        return " " * BAR
    if isinstance(step, Wait) or step.name in ("generate", "tool"):
        shade = "░"
    else:
        shade = "█" if step.worked >= step.waited else "▒"
    begin = min(int(BAR * (step.start - story.start) / story.seconds), BAR - 1)
    width = max(round(BAR * step.seconds / story.seconds), 1)
    return (" " * max(begin, 0) + shade * width)[:BAR].ljust(BAR)


def _balance(story: Story) -> Iterator[str]:
    """Who worked and who waited, the most first."""
    shares = story.shares
    total = sum(shares.values()) or 1.0
    worked = sum(seconds for share, seconds in shares.items() if share.is_work)
    yield f"worked {_seconds(worked)} ({percent(worked / total)}), waited {_seconds(total - worked)}:"
    for share, seconds in sorted(shares.items(), key=lambda item: -item[1]):
        yield f"  {share:<{NAME - 2}} {_seconds(seconds):>9}  {percent(seconds / total):>5}"


def rows(told: Sequence[Story], *, headers: bool = True) -> list[str]:
    """One line a trajectory."""
    return table(COLUMNS, [_row(story) for story in told], headers=headers)


def _row(story: Story) -> list[str]:
    shares = story.shares
    most = max(shares, key=lambda share: shares[share], default=None)
    waited = sum(seconds for share, seconds in shares.items() if not share.is_work)
    reward, staleness = story.note("score", "reward"), story.note("train", "staleness")
    return [
        story.id,
        f"{story.seconds:.2f}",
        story.outcome,
        number(float(reward), 3) if isinstance(reward, int | float) else "",
        "" if staleness is None else str(staleness),
        str(_tokens(story)),
        percent(waited / (sum(shares.values()) or 1.0)),
        f"{most} ({_seconds(shares[most])})" if most else "",
    ]


def as_item(story: Story) -> dict[str, Any]:
    """The same for programs: seconds, and spans with unix times."""
    return {
        "trajectory": story.id,
        "outcome": story.outcome,
        "start": round(story.start, 6),
        "seconds": round(story.seconds, 6),
        "reward": story.note("score", "reward"),
        "step": story.note("train", "step"),
        "staleness": story.note("train", "staleness"),
        "tokens": _tokens(story),
        "shares": {share.key: round(seconds, 6) for share, seconds in story.shares.items()},
        "spans": [_span(span) for span in story.spans],
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "name": span.name,
        "stage": span.stage,
        "pod": span.pod,
        "id": span.id,
        "parent": span.parent,
        "start": span.start,
        "end": span.end,
        "failed": span.failed,
        "waitedSeconds": round(span.waited, 6),
        "workedSeconds": round(span.worked, 6),
        "about": dict(span.about),
    }


def _tokens(story: Story) -> int:
    return sum(int(span.about.get("tokens", 0)) for span in story.spans if span.name == "generate")


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
