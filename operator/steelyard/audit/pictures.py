"""The drawings of a report that show no time: the way of a trajectory, the wait graph, GPU-hours, spreads of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log10

from steelyard.api import Stage
from steelyard.audit.drawings import STATES
from steelyard.audit.gputime import GpuTime
from steelyard.audit.trajectory import Part, Tool
from steelyard.audit.waits import TOOLS, WEIGHTS, Wait
from steelyard.balance.diagnose.waits import DOWNSTREAM, WaitGraph

FAINT = 0.01
"""Share of a stage's time below which a wait is drawn without its figure."""

CENTRES = {
    Stage.SAMPLER: (206, 40), WEIGHTS: (368, 40), Stage.ENVIRONMENT: (82, 178), Stage.TRAINER: (344, 178),
    Stage.REWARD_SERVER: (222, 322), TOOLS: (64, 322),
}  # fmt: skip
"""Where the nodes of the wait graph are, in a box of 420 by 362."""
SIZES = {WEIGHTS: (84, 40), TOOLS: (70, 40)}
SIZE = (124, 44)
BEND = 26.0
"""How far an arrow leaves the straight line, so that the two directions of a pair do not cover each other."""


@dataclass(frozen=True)
class Bar:
    """A stretch of a horizontal bar."""

    name: str
    width: float
    """Per cent of the whole."""
    value: float
    waits: bool = False


def way_bar(parts: Sequence[Part]) -> tuple[Bar, ...]:
    """The known parts of a trajectory's way, as shares of their sum."""
    known = [(part, part.seconds) for part in parts if part.seconds]
    whole = sum(seconds for _, seconds in known)
    return tuple(Bar(part.name, 100 * seconds / whole, seconds, part.waits) for part, seconds in known)


def gpu_bars(time: GpuTime) -> tuple[tuple[Stage, float, tuple[Bar, ...]], ...]:
    """(stage, its GPU-hours, its bar): bars as long as their hours, against the stage with most."""
    sums = {stage: sum(states.values()) for stage, states in time.hours.items()}
    most = max(sums.values(), default=0.0)
    if most <= 0:
        return ()
    return tuple(
        (
            stage,
            sums[stage],
            tuple(
                Bar(state, 100 * hours / most, hours)
                for state in STATES
                if (hours := time.hours[stage].get(state, 0.0)) > 0
            ),
        )
        for stage in DOWNSTREAM
        if sums.get(stage)
    )


@dataclass(frozen=True)
class Node:
    name: str
    x: float
    y: float
    width: float
    height: float
    working: float | None
    is_stage: bool


@dataclass(frozen=True)
class Arrow:
    """From the one that waits to whom it waits for."""

    path: str
    head: str
    share: float
    stroke: float
    x: float
    y: float
    """Where its figure stands."""
    words: str
    shown: bool
    biggest: bool


def nodes(graph: WaitGraph, waits: Sequence[Wait]) -> tuple[Node, ...]:
    """Every stage with its share of work, and tools and weights where somebody waits for them."""
    targets = {wait.target for wait in waits}
    found = []
    for name, (x, y) in CENTRES.items():
        stage = name if isinstance(name, Stage) else None
        if stage is not None or name in targets:
            width, height = SIZES.get(name, SIZE)
            busy = graph[stage].share("busy") if stage else None
            found.append(Node(name, x - width / 2, y - height / 2, width, height, busy, stage is not None))
    return tuple(found)


def arrows(waits: Sequence[Wait], biggest: Wait | None) -> tuple[Arrow, ...]:
    """One arrow for each pair, as wide as the waiter's share of time."""
    pairs: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        pairs.setdefault((wait.waiter, wait.target), []).append(wait)
    return tuple(_arrow(pair, among, biggest) for pair, among in pairs.items())


def _arrow(pair: tuple[str, str], among: list[Wait], biggest: Wait | None) -> Arrow:
    (x0, y0), (x1, y1) = (CENTRES[name] for name in pair)
    length = hypot(x1 - x0, y1 - y0)
    side = -1 if pair[1] == TOOLS else 1  # away from the middle, where the others are
    across, down = side * (y1 - y0) / length, side * -(x1 - x0) / length
    bend_x, bend_y = (x0 + x1) / 2 + BEND * across, (y0 + y1) / 2 + BEND * down
    share = min(sum(wait.share for wait in among), 1.0)
    stroke = 1.2 + 9 * share
    start, end = _border(pair[0], bend_x, bend_y, 0.0), _border(pair[1], bend_x, bend_y, 4 + 1.2 * stroke)
    tip = _border(pair[1], bend_x, bend_y, 2.0)
    path = f"M{start[0]:.1f},{start[1]:.1f} Q{bend_x:.1f},{bend_y:.1f} {end[0]:.1f},{end[1]:.1f}"
    middle_x, middle_y = (start[0] + 2 * bend_x + end[0]) / 4, (start[1] + 2 * bend_y + end[1]) / 4
    away = stroke / 2 + 13
    return Arrow(
        path,
        _head(end, tip, 2.2 + 0.9 * stroke),
        share,
        round(stroke, 1),
        round(middle_x + away * across, 1),
        round(middle_y + away * down * 0.75, 1),
        "; ".join(f"{wait.waiter} {wait.words}" for wait in among),
        share >= FAINT,
        biggest in among,
    )


def _border(name: str, from_x: float, from_y: float, gap: float) -> tuple[float, float]:
    """Where the line from a point to the centre of a node enters it, `gap` before."""
    x, y = CENTRES[name]
    width, height = SIZES.get(name, SIZE)
    dx, dy = from_x - x, from_y - y
    scale = min(width / 2 / abs(dx) if dx else 1.0, height / 2 / abs(dy) if dy else 1.0)
    scale += gap / hypot(dx, dy)
    return x + dx * scale, y + dy * scale


def _head(base: tuple[float, float], tip: tuple[float, float], half: float) -> str:
    length = hypot(tip[0] - base[0], tip[1] - base[1]) or 1.0
    dx, dy = (tip[0] - base[0]) / length, (tip[1] - base[1]) / length
    corners = (tip, (base[0] - half * dy, base[1] + half * dx), (base[0] + half * dy, base[1] - half * dx))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


@dataclass(frozen=True)
class Range:
    """p50, p95 and p99 of one tool on a logarithmic axis, as per cent of its width."""

    tool: Tool
    dots: tuple[tuple[str, float, float], ...]
    """(quantile, seconds, per cent)."""


def tool_ranges(found: Sequence[Tool]) -> tuple[tuple[Range, ...], tuple[tuple[float, float], ...]]:
    """The ranges, and the marks of their axis: (seconds, per cent)."""
    values = [v for tool in found for v in (tool.spread.p50, tool.spread.p95, tool.spread.p99) if v]
    if not values:
        return (), ()
    low, high = _decade(min(values)), _decade(max(values)) + 1

    def percent(seconds: float) -> float:
        return round(100 * (log10(seconds) - low) / (high - low), 2)

    ranges = tuple(
        Range(
            tool,
            tuple(
                (name, seconds, percent(seconds))
                for name, seconds in (("p50", tool.spread.p50), ("p95", tool.spread.p95), ("p99", tool.spread.p99))
                if seconds
            ),
        )
        for tool in found
    )
    return ranges, tuple((10.0**power, percent(10.0**power)) for power in range(low, high + 1))


def _decade(value: float) -> int:
    return int(log10(value) // 1)
