"""What people see who sit at a terminal: frames drawn in place, whole in width and cut in height, and keys."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import pytest

from steelyard.cli.commands.status import status
from steelyard.cli.commands.top import KEYS, top
from steelyard.cli.commands.tree import tree
from steelyard.cli.session import Session
from steelyard.cluster.errors import NotFound
from steelyard.cluster.kinds import JOB, REVISION
from tests.unit.cli.fake_kubectl import FakeKubectl, State
from tests.unit.cli.world import Answering, lived, steelyard

SECONDS = 20.0
DRAWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """What was drawn since the beginning, without colours and moves of the cursor."""
        return DRAWN.sub("", self.getvalue())


@pytest.fixture
def state() -> State:
    return lived(50).state()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen()


@contextmanager
def typing(screen: Screen, script: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Somebody at a keyboard who presses a key each time that words appear."""
    ours, theirs = pty.openpty()

    def types() -> None:
        seen = 0
        for words, key in script:
            end = time.monotonic() + SECONDS
            while words not in screen.text[seen:] and time.monotonic() < end:
                time.sleep(0.01)
            seen = len(screen.text)
            os.write(ours, key.encode())

    person = threading.Thread(target=types, daemon=True)
    with os.fdopen(theirs) as stdin, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        person.start()
        yield
        person.join()
    os.close(ours)


def gone_at_once(state: State) -> None:
    """The next that is heard of the job is that it is deleted."""
    state.events[JOB.path("default")] = [[("DELETED", state.objects[JOB.path("default", "calculator")])]]


@pytest.mark.parametrize(("name", "command"), [("status", status), ("tree", tree)])
def test_a_watch_says_on_a_narrow_terminal_all_that_one_look_says(
    name: str, command: Callable[..., object], state: State, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "100")
    with monkeypatch.context() as elsewhere:
        once = steelyard(state, name, "calculator", monkeypatch=elsewhere)[1]
    gone_at_once(state)
    with redirect_stdout(screen), pytest.raises(NotFound):
        command(Session(FakeKubectl(state)), "calculator", watch=True)
    frame = screen.text[: len(screen.text) // 2 + 80]
    assert frame.split()[: len(once.split())] == once.split()
    assert max(map(len, screen.text.splitlines())) <= 80
    assert "\x1b[32mRunning\x1b[0m" in screen.getvalue()


def test_a_tree_that_is_too_tall_is_cut_and_says_so(
    state: State, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "8")
    monkeypatch.setenv("COLUMNS", "200")
    gone_at_once(state)
    with redirect_stdout(screen), pytest.raises(NotFound):
        tree(Session(FakeKubectl(state)), "calculator", watch=True)
    lines = screen.text.splitlines()
    assert lines[0].startswith("NAME ")
    assert re.fullmatch(r"\+\d+ more", lines[6])


def test_the_keys_of_top_are_shown_on_the_smallest_screen_and_explain_pause_and_quit(
    state: State, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.cli.commands.top.Asking", Answering({}))
    monkeypatch.setenv("LINES", "12")
    back = "any key goes back"
    script = [(KEYS, "e"), (back, " "), (KEYS, "p"), (back, " "), (KEYS, "q")]
    with redirect_stdout(screen), typing(screen, script):
        top(Session(FakeKubectl(state)), "calculator")
    assert "DECISION: Hold (OpenMove) by the operator" in screen.text
    assert "calculator-3 holds sampler 2 whole" in screen.text
    assert state.objects[REVISION.path("default", "calculator-3")]["spec"]["origin"] == "User"
    frames = screen.getvalue().split("\x1b[H")
    assert max(len(DRAWN.sub("", frame).splitlines()) for frame in frames) <= 12
