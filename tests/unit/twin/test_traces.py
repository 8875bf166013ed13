"""Recorded sessions as input: both public formats, and every malformed row by its place."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import pytest

from steelyard.twin.jobs import demand, split
from steelyard.twin.profiles import profile
from steelyard.twin.traces import Malformed, read
from tests.unit.twin.builders import finished

TAU = "trajectory,turn,input_tokens_added,output_tokens,reward\n"
LAB = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"


def test_both_public_formats_are_read() -> None:
    sessions = read(TAU + "0,0,1557,23,0.0\n0,1,8,117,0.0\n1,0,1500,9,1.0\n")
    assert [[turn.output_tokens for turn in one.turns] for one in sessions] == [[23, 117], [9]]
    assert sessions[0].turns[0].tool_seconds is None
    assert read(TAU.strip() + ",\n0,0,1557,23,0.0,a note\n")[0].turns[0].tool_seconds is None
    (session,) = read(LAB + "7,117,1,2518,348,131,\n7,117,0,0,2318,200,300\n")
    assert [turn.input_tokens for turn in session.turns] == [2318, 348]
    assert [turn.tool_seconds for turn in session.turns] == [0.3, None]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "row 1: columns none; needed are trajectory,turn"),
        ("a,b\n1,2\n", "row 1: columns a,b; needed are"),
        (TAU, "row 2: a trace has at least one row"),
        (TAU + "0,0,1557,23,0\n0,1,x,3,0\n", "row 3, column input_tokens_added: 'x' is no whole number"),
        (TAU + "0,0,1557,-3,0\n", "row 2, column output_tokens: '-3' is no whole number"),
        (TAU + "0,0,1557,0,0\n", "row 2, column output_tokens: 0; a turn generates at least one token"),
        (TAU + "0,0,1557\n", "row 2, column output_tokens: '' is no whole number"),
        (TAU + "0,0,1,2,0\n0,0,1,2,0\n", "row 3, column turn: turn 0 of this session came before"),
        (TAU + "0,0,nan,2,0\n", "row 2, column input_tokens_added: 'nan'"),
        (TAU + "0,0,99999999999999999999,2,0\n", "row 2, column input_tokens_added"),
        (TAU + ",0,1,2,0\n", "row 2, column trajectory: there is no value"),
        (LAB + "0,1,0,0,10,10,1e3\n", "row 2, column tool_wait_after_ms: '1e3'"),
        (TAU + '0,0,"' + "9" * 200_000 + '",2,0\n', "row 2"),
    ],
)
def test_a_malformed_row_is_refused_by_row_and_column(text: str, says: str) -> None:
    with pytest.raises(Malformed) as error:
        read(text)
    assert says in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(("name", "sessions", "turns"), [("tau_airline", 200, 2454), ("tracelab", 48, 303)])
def test_the_bundled_traces_are_whole(name: str, sessions: int, turns: int) -> None:
    found = read((files("steelyard.twin") / "data" / f"{name}.csv").read_text())
    assert len(found) == sessions
    assert sum(len(one.turns) for one in found) == turns


def test_trajectories_are_drawn_from_recorded_sessions() -> None:
    sessions = read(LAB + "0,0,0,0,50,40,100\n0,0,1,0,20,10,0\n1,0,0,0,30,100,0\n")
    setup = replace(profile("tau", 16), sessions=sessions, steps=3, failed_share=0.0)
    assert setup.mean_tokens == 75
    assert demand(setup, 0).tokens == pytest.approx(75, rel=0.02)
    pipeline = finished(setup, split(setup, 4, 2, 4))
    assert pipeline.trained == 3 * setup.batch
