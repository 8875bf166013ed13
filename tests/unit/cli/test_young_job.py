"""A job that the operator has not looked at yet: every command says so in its own way, and none breaks."""

from __future__ import annotations

import pytest

from steelyard.balance.types import Rates
from steelyard.cli import looking
from steelyard.cli.looking import Measured
from tests.builders import job_manifest
from tests.unit.cli.fake_kubectl import State, put
from tests.unit.cli.world import steelyard

NOT_YET = "the operator has not recorded an allocation of this job yet"
ANSWERS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "status": ((), 0, "Pending"),
    "tree": ((), 0, "AgenticRLJob/calculator"),
    "top": (("--once",), 0, "no revision yet"),
    "history": ((), 0, "nothing that is known happened to default/calculator yet"),
    "explain": ((), 0, "DECISION: none yet: the operator has not looked at the job"),
    "why-not": (("--stage", "sampler", "--to", "3"), 3, "sampler has 0 replicas and not 3: Initial"),
    "logs": ((), 0, "no container of the job has started"),
    "hold": (("--stage", "sampler", "--replicas", "2"), 3, NOT_YET),
    "pause": ((), 3, NOT_YET),
    "undo": ((), 3, NOT_YET),
    "resume": ((), 0, "nothing is held"),
}


@pytest.mark.parametrize("command", ANSWERS)
def test_a_young_job_is_no_mistake(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> Measured:
        return Measured(Rates(60.0), 1_800_000_000.0, "p")

    monkeypatch.setattr(looking, "_measured", nothing)
    monkeypatch.setattr(looking, "operators_place", lambda *_: "p")
    job = job_manifest()
    job["metadata"] |= {"creationTimestamp": "2027-01-15T08:00:00Z", "generation": 1}
    options, exit_code, says = ANSWERS[command]
    code, out, err = steelyard(put(State(), job), command, "calculator", *options, monkeypatch=monkeypatch)
    assert code == exit_code
    assert says in out + err
    assert "INPUTS" not in out
    assert "WHAT WOULD CHANGE IT" not in out
