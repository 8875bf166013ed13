"""The checker's verdicts, from ledgers and a view of the bus made up here."""

from pathlib import Path
from typing import Any

import pytest

from e2e.checker import BusView, Findings, Id, judge, newest

MEMBERS = range(2)


def ledger(*steps: tuple[int, list[int]], refed: tuple[tuple[int, int], ...] = ()) -> dict[str, Any]:
    """A checkpoint's ledger: (step, groups) pairs, all members of a group trained."""
    return {
        "step": steps[-1][0] if steps else 0,
        "refed": refed,
        "steps": [
            {
                "step": step,
                "groups": [
                    {"group": group, "members": [{"k": k, "fate": "trained"} for k in MEMBERS]} for group in groups
                ],
            }
            for step, groups in steps
        ],
    }


def ids(*groups: int) -> set[Id]:
    return {Id(group, k) for group in groups for k in MEMBERS}


def bus(admitted: int, under_way: set[Id], dead: set[Id] = frozenset()) -> BusView:  # type: ignore[assignment]
    return BusView(ids(*range(admitted)), under_way, dead, "1.2")


CHAIN = [ledger((1, [0])), ledger((2, [1]))]
CASES: dict[str, tuple[list[dict[str, Any]], BusView | None, dict[str, Any]]] = {
    "all accounted for": (CHAIN, bus(4, ids(2), ids(3)), {"ok": True, "trained": 4, "open": 2}),
    "what waits for its acknowledgement is not open": (CHAIN, bus(3, ids(1, 2)), {"ok": True, "open": 2}),
    "nothing trained yet": ([], bus(2, ids(0, 1)), {"ok": True, "step": 0, "open": 4}),
    "admitted and nowhere": (CHAIN, bus(3, ids()), {"ok": False, "lost": ["2/0", "2/1"]}),
    "lost and fed anew": ([ledger((1, [0]), refed=((0, 1),))], bus(1, ids()), {"ok": False, "lost": ["0/1"]}),
    "trained by two steps": ([ledger((1, [0]), (2, [0]))], bus(1, ids()), {"ok": False, "duplicated": ["0/0", "0/1"]}),
    "trained again after a commit": ([*CHAIN, ledger((3, [0]))], None, {"ok": False, "duplicated": ["0/0", "0/1"]}),
    "a step that no ledger has": ([ledger((1, [0])), ledger((3, [1]))], None, {"ok": False, "gaps": [2]}),
    "no bus any more": (CHAIN, None, {"ok": True, "trained": 4, "open": None}),
}


@pytest.mark.parametrize(("chain", "view", "want"), CASES.values(), ids=CASES)
def test_a_verdict(chain: list[dict[str, Any]], view: BusView | None, want: dict[str, Any]) -> None:
    findings: Findings = judge(chain, view)
    assert {name: getattr(findings, name) for name in want} == want


def test_a_member_that_was_consumed_without_being_trained_is_neither_trained_nor_lost() -> None:
    one = ledger((1, [0]))
    one["steps"][0]["groups"][0]["members"][1]["fate"] = "timeout"
    findings = judge([one], bus(1, ids()))
    assert (findings.ok, findings.trained, findings.closed_untrained) == (True, 1, 1)


def test_the_newest_checkpoint_is_a_whole_one(tmp_path: Path) -> None:
    for name in ("1.4", "1.12", "2.8", "2.12.partial", "tensorboard"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.json").touch()
    assert newest(tmp_path) == "2.8"
