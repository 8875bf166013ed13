"""Traces of agents as input: both column sets, and every malformed row named."""

import pytest

from steelyard.twin.trace_files import BadTrace, read_trace
from steelyard.twin.traces import Session, Turn

TRACELAB = """session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms
a,0,1,2518,348,131,154
a,0,0,0,2318,200,300
b,5,0,0,90,20,
"""
TURNS = """trajectory,turn,input_tokens_added,output_tokens,reward
7,0,1557,23,0.0
7,1,8,117,1.0
"""


def test_rounds_are_put_in_order_and_milliseconds_become_seconds() -> None:
    first = Session((Turn(2318, 200, 0.3), Turn(348, 131, 0.154)))
    assert read_trace(TRACELAB.splitlines()) == (first, Session((Turn(90, 20, None),)))


def test_turns_without_tool_times_leave_them_unknown() -> None:
    assert read_trace(TURNS.splitlines()) == (Session((Turn(1557, 23), Turn(8, 117))),)


BAD = {
    "no file": ("", "line 1: the columns are missing"),
    "other columns": ("a,b\n1,2\n", "line 1: the columns are a, b; wanted are session_id"),
    "no rows": (TURNS.splitlines()[0], "line 2: there is no row"),
    "a word": (TURNS.replace("1557", "many"), "line 2, column input_tokens_added: 'many' is not a number"),
    "NaN": (TURNS.replace("117", "nan"), "line 3, column output_tokens: nan is not between 0"),
    "negative": (TURNS.replace("1557", "-5"), "line 2, column input_tokens_added: -5 is not between 0"),
    "an empty turn": (TURNS.replace("117", "0"), "line 3, column output_tokens: 0 is less than 1"),
    "a short row": (TURNS.replace("7,1,8,117,1.0", "7,1"), "line 3, column output_tokens: there is no value"),
    "a turn told twice": (TURNS.replace("7,1,", "7,0,"), "line 3, column turn: turn 0 is there twice"),
}


@pytest.mark.parametrize(("text", "names"), BAD.values(), ids=BAD)
def test_malformed_rows_are_named_by_line_and_column(text: str, names: str) -> None:
    with pytest.raises(BadTrace, match=names):
        read_trace(text.splitlines())
