"""What pages show of the recorded run is what the operator's own code makes of it: figures, and output of commands."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.api import AgenticRLJob, Allocation, AllocationRevision, Stage
from steelyard.balance.gate import GATES, Case
from steelyard.balance.ledger import model_of, throughput_of
from steelyard.balance.model import Model
from steelyard.balance.propose import candidate_of
from steelyard.balance.words import number
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import steelyard

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-it-decides.md").read_text()
WORDS = " ".join(PAGE.replace("\n> ", " ").split())
RECORD = json.loads(gzip.decompress((ROOT / "e2e" / "screenshots" / "calculator.json.gz").read_bytes()))
RECORD = RECORD["items"][0]["record"]
JOB = AgenticRLJob.from_cluster(RECORD["job"])
FIRST, *MOVES = map(AllocationRevision.model_validate, RECORD["revisions"])


def model(move: AllocationRevision) -> Model:
    found = model_of(move.spec.inputs)
    assert found
    return found


def gates(move: AllocationRevision) -> dict[str, str]:
    """What each gate found, in the page's own order."""
    of, spec = model(move), move.spec.allocation
    candidate = candidate_of(of, JOB.spec, spec.before, spec.after)
    earlier = [FIRST, *MOVES][: move.spec.number - 1]
    case = Case(candidate, of, JOB.spec, earlier, throughput_of(move.spec.inputs), None, 0.0)
    found = {judged.kind: judged for judged in (gate(case) for gate in GATES)}
    assert all(judged.passed for judged in found.values())
    return {kind: judged.figure for kind, judged in found.items()}


def rows(heading: str) -> dict[str, list[str]]:
    """The first cell of each row of the first table below a heading -> its other cells."""
    table = re.search(r"^\|.*?\n\n", PAGE.partition(f"\n## {heading}")[2], re.MULTILINE | re.DOTALL)
    assert table
    cells = [re.findall(r"[^|]+", line.strip("|")) for line in table[0].strip().splitlines()[2:]]
    return {first.strip(" `*"): [one.strip(" *") for one in others] for first, *others in cells}


def test_what_was_measured() -> None:
    inputs = {name: float(value) for name, value in MOVES[0].spec.inputs.items()}
    shown = rows("1. What is measured")
    assert [re.match(r"[\d.]+", value)[0] for (value,) in shown.values()] == [  # type: ignore[index]
        number(inputs["throughput"]),
        number(inputs["workload.outsideSeconds"], 3),
        number(inputs["workload.waitingSeconds"]),
        number(inputs["workload.tokens"], 3),
        number(inputs["rate.reward-server.whole"]),
        number(inputs["rate.trainer.whole"]),
    ]


def test_what_each_stage_alone_would_allow() -> None:
    before = MOVES[0].spec.allocation.before
    limits = model(MOVES[0]).promise(before).limits
    shown = rows("2. What each stage alone")
    assert shown == {
        stage.field: [str(before.replicas(stage)), number(limits[stage])]
        for stage in (Stage.ENVIRONMENT, Stage.REWARD_SERVER, Stage.SAMPLER, Stage.TRAINER)
    }


def test_what_the_first_move_promises_and_what_the_gates_found() -> None:
    after = model(MOVES[0]).promise(MOVES[0].spec.allocation.after)
    assert f"allows {number(after.limits[Stage.ENVIRONMENT], 3)}" in WORDS
    assert after.binding is Stage.REWARD_SERVER
    found, shown = gates(MOVES[0]), rows("3. The best allocation")
    assert [*shown] == [*found]
    assert found["DeadBand"].split(" %")[0] in shown["DeadBand"][1]
    assert re.findall(r"\d+ %", found["Uncertain"])[-1] in shown["Uncertain"][1]
    assert re.findall(r"\d+ s", found["Payback"])[0] in shown["Payback"][1]
    assert MOVES[0].spec.predicted
    assert f"costs {MOVES[0].spec.predicted.cost_seconds} s" in shown["Payback"][1]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.metadata.name)
def test_verdicts_are_quoted(move: AllocationRevision) -> None:
    assert f"`{move.metadata.name}` **{move.status.verdict}**: {move.status.evidence}" in WORDS


def test_the_second_move() -> None:
    of, move = model(MOVES[1]), MOVES[1].spec.allocation
    shown = rows("5. The second move")
    for name, allocation in (("before", move.before), ("after", move.after)):
        promise = of.promise(allocation)
        cells = [
            f"{allocation.replicas(stage)} ({number(promise.limits[stage])})"
            for stage in (Stage.SAMPLER, Stage.ENVIRONMENT, Stage.REWARD_SERVER, Stage.TRAINER)
        ]
        assert [cell.replace("*", "") for cell in shown[name]] == [*cells, number(promise.throughput)]
    judges = Allocation.of({**{stage: move.after[stage] for stage in Stage}, Stage.ENVIRONMENT: {"default": 2}})
    assert f"would stop at {of.promise(judges).throughput:.1f}" in WORDS
    predicted = MOVES[1].spec.predicted
    assert predicted
    assert f"+{predicted.gain_percent} % and costs about {predicted.cost_seconds} s" in WORDS


CLI = (ROOT / "docs" / "cli.md").read_text()
SHOWN = dict(re.findall(r"^```console\n\$ steelyard ([^\n]+)\n(.*?)^```", CLI, re.MULTILINE | re.DOTALL))
LATER = datetime(2026, 11, 30, 13, 58, tzinfo=UTC)


@pytest.mark.parametrize("command", ["status", "history calculator", "explain calculator --revision 3"])
def test_commands_print_what_the_page_shows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`...` stands for lines, an ellipsis for the end of one."""
    monkeypatch.setattr("steelyard.cli.commands.status.now", lambda: LATER)
    state = put(State(), RECORD["job"], *RECORD["revisions"])
    code, out, _ = steelyard(state, *command.split(), monkeypatch=monkeypatch)
    assert code == 0
    printed = iter(out.splitlines())
    for shown in SHOWN[command].splitlines():
        line = shown.rstrip("…")
        assert shown == "..." or any(one.startswith(line) and (one == line or "…" in shown) for one in printed), shown
