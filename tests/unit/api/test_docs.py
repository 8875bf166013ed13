"""The pages for users keep up with the code: whatever the operator may answer is explained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.api import Verdict
from steelyard.balance import decide, signals
from steelyard.balance.bounds import LIMITERS
from steelyard.balance.diagnose.remedies import PAGE as PAGE_OF_SYMPTOMS
from steelyard.balance.diagnose.remedies import anchor
from steelyard.balance.readiness import GATED
from steelyard.balance.types import Action, MetricsProblem, Symptom
from steelyard.status import PHASES

ROOT = Path(__file__).parents[3]
OPERATOR = ROOT / "operator" / "steelyard"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
TREES = {file: ast.parse(file.read_text()) for file in sorted(OPERATOR.rglob("*.py"))}
WORD = re.compile(r"[A-Z][A-Za-z]+")
SAYS = {  # callable -> which of its arguments is the word
    "Fact": 1,
    "_refused": 1,
    "Decision": 1,
    "hold": 0,
    "Judged": 0,
    "_judged": 0,
    "_within": 0,
    "_become": 2,
    "Problem": 0,
    "Event": 1,
    "event": 2,
    "pool_event": 2,
}


def said(*callables: str) -> Iterator[str]:
    """The words that the operator's code gives to these callables: literals, constants, both sides of an `if`."""
    for name, call, constants in CALLS:
        if name in callables:
            place = SAYS[name]
            yield from _words(call.args[place : place + 1], constants)


def _calls() -> Iterator[tuple[str, ast.Call, dict[str, Any]]]:
    """What is called by a name in `SAYS`, and the constants of its module."""
    for tree in TREES.values():
        constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in _constants(node))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in SAYS:
                    yield name, node, constants


def _constants(node: ast.Assign) -> Iterator[tuple[str, Any]]:
    """`A = "a"`, and `A, B = "a", "b"`."""
    (target,) = node.targets
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    for name, value in zip(names, values, strict=False):
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
            yield name.id, value.value


def _words(nodes: list[ast.expr], constants: dict[str, Any]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.IfExp):
            yield from _words([node.body, node.orelse], constants)
        found = node.value if isinstance(node, ast.Constant) else constants.get(getattr(node, "id", ""))
        if isinstance(found, str) and WORD.fullmatch(found):
            yield found


CALLS = list(_calls())


def refusals() -> Iterator[str]:
    """`return "QueueNotFound", message`: why a pool admits no job."""
    for node in ast.walk(TREES[OPERATOR / "cluster" / "quota.py"]):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _words(node.value.elts[:1], {})


def conditions() -> list[str]:
    source = (OPERATOR / "status" / "conditions.py").read_text()
    return sorted(set(re.findall(r"\"(\w+)\": (?:_|lambda)", source)))


REASONS = {*said("Fact", "_refused", "Problem"), *refusals(), *MetricsProblem, GATED}
RULES = {
    *said("hold", "Judged", "_judged", "_within", "_become", "Decision"),
    *decide.ORDERS,
    *(kind for kind, _ in LIMITERS),
}


def test_words_are_found_in_the_code() -> None:
    assert {"ReplicasReady", "ReplicasLost", "PoolsOff", "QueueNotFound", "Unreachable", "InvalidSpec"} <= REASONS
    assert {"NotSuspended", "Suspended", "WaitingForGpus", "Overdrawn", "ContainerCannotBeCreated"} <= REASONS
    assert {"Balanced", "DeadBand", "Payback", "Pinned", "Growth", "Best", "RolledBack", "Gain", "OpenMove"} <= RULES


@pytest.mark.parametrize("word", sorted(REASONS | RULES))
def test_every_reason_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize(
    "event", sorted({*said("Event", "event", "pool_event"), *Action} - {Action.HOLD, Action.RECOMMEND})
)
def test_every_event_is_explained(event: str) -> None:
    assert f"`{event}`" in PAGE.partition("\n## Events\n")[2]


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_is_explained(verdict: Verdict) -> None:
    assert f"`Verdict{verdict}`" in PAGE
    assert f"`{verdict}`" in (ROOT / "docs" / "how-it-decides.md").read_text()


@pytest.mark.parametrize("phase", [phase for _, phase in PHASES])
def test_every_phase_is_named(phase: str) -> None:
    assert f"`{phase}`" in PAGE.partition("`status.phase` is for people")[2]


@pytest.mark.parametrize("condition", conditions())
def test_every_condition_is_explained(condition: str) -> None:
    assert re.search(rf"^\|.*`{condition}=(True|False)`", PAGE, re.MULTILINE)


@pytest.mark.parametrize("symptom", Symptom)
def test_every_symptom_has_its_section(symptom: Symptom) -> None:
    assert f"\n## {anchor(symptom)}\n" in (ROOT / PAGE_OF_SYMPTOMS).read_text()


@pytest.mark.parametrize("metric", signals.ALL)
def test_every_metric_that_is_read_is_explained(metric: str) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert metric.removeprefix("vllm:").removesuffix("_sum").removesuffix("_count") in page


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
