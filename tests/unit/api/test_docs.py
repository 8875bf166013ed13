"""The pages for users keep up with the code: whatever the operator may answer is explained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

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


@cache
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text()) for file in sorted(OPERATOR.rglob("*.py"))}


def said(*callables: str) -> Iterator[str]:
    """The words that the operator's code gives to these callables: literals, constants, both sides of an `if`."""
    for name, call, constants in _calls():
        if name in callables:
            place = SAYS[name]
            yield from _words(call.args[place : place + 1], constants)


@cache
def _calls() -> list[tuple[str, ast.Call, dict[str, Any]]]:
    """What is called by a name in `SAYS`, and the constants of its module."""
    found = []
    for tree in trees().values():
        constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in _constants(node))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in SAYS:
                    found.append((name, node, constants))
    return found


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


def refusals() -> Iterator[str]:
    """`return "QueueNotFound", message`: why a pool admits no job."""
    for node in ast.walk(trees()[OPERATOR / "cluster" / "quota.py"]):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _words(node.value.elts[:1], {})


def conditions() -> set[str]:
    source = (OPERATOR / "status" / "conditions.py").read_text()
    return set(re.findall(r"\"(\w+)\": (?:_|lambda)", source))


def reasons() -> set[str]:
    return {*said("Fact", "_refused", "Problem"), *refusals(), *MetricsProblem, GATED}


def rules() -> set[str]:
    judged = said("hold", "Judged", "_judged", "_within", "_become", "Decision")
    return {*judged, *decide.ORDERS, *(kind for kind, _ in LIMITERS)}


def test_words_are_found_in_the_code() -> None:
    assert {"ReplicasReady", "ReplicasLost", "PoolsOff", "QueueNotFound", "Unreachable", "InvalidSpec"} <= reasons()
    assert {"NotSuspended", "Suspended", "WaitingForGpus", "Overdrawn", "ContainerCannotBeCreated"} <= reasons()
    assert {"Balanced", "DeadBand", "Payback", "Pinned", "Growth", "Best", "RolledBack", "Gain", "OpenMove"} <= rules()
    assert {"Ready", "MetricsAvailable", "Balanced"} <= conditions()


def test_every_reason_is_explained() -> None:
    assert {word for word in reasons() | rules() if f"`{word}`" not in PAGE} == set()


def test_every_event_is_explained() -> None:
    events = {*said("Event", "event", "pool_event"), *Action} - {Action.HOLD, Action.RECOMMEND}
    told = PAGE.partition("\n## Events\n")[2]
    assert {event for event in events if f"`{event}`" not in told} == set()


def test_every_verdict_is_explained() -> None:
    how_it_decides = (ROOT / "docs" / "how-it-decides.md").read_text()
    assert [verdict for verdict in Verdict if f"`Verdict{verdict}`" not in PAGE] == []
    assert [verdict for verdict in Verdict if f"`{verdict}`" not in how_it_decides] == []


def test_every_phase_is_named() -> None:
    told = PAGE.partition("`status.phase` is for people")[2]
    assert [phase for _, phase in PHASES if f"`{phase}`" not in told] == []


def test_every_condition_is_explained() -> None:
    rows = "\n".join(re.findall(r"^\|.*", PAGE, re.MULTILINE))
    assert conditions() - set(re.findall(r"`(\w+)=(?:True|False)`", rows)) == set()


def test_every_symptom_has_its_section() -> None:
    page = (ROOT / PAGE_OF_SYMPTOMS).read_text()
    assert [symptom for symptom in Symptom if f"\n## {anchor(symptom)}\n" not in page] == []


def test_every_metric_that_is_read_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    names = {one.removeprefix("vllm:").removesuffix("_sum").removesuffix("_count") for one in signals.ALL}
    assert {name for name in names if name not in page} == set()


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [(page, to) for page in pages for to in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(links) > 100
    assert [(page.name, to) for page, to in links if not (page.parent / to).exists()] == []
